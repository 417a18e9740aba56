package mattermosttest

import (
	"slices"
	"strconv"
)

// channelPosts lists posts, the newest first: a page of them, those before or
// after one, or those that changed since a time.
func (s *Server) channelPosts(c *call) (answer, error) {
	ch, err := s.channelNamed(c)
	if err != nil {
		return answer{}, err
	}
	if !s.reads(c.user, ch) {
		return answer{}, forbidden()
	}
	since, _ := strconv.ParseInt(c.query("since"), 10, 64)
	deleted := since > 0 || c.query("include_deleted") == "true" && c.user.Admin
	var all []*post
	for _, p := range slices.Backward(s.order) {
		if p.channel == ch.ID && (p.deletedAt == 0 || deleted) && max(p.updatedAt, p.deletedAt) > since {
			all = append(all, p)
		}
	}
	if since > 0 {
		return ok(s.postList(all[:min(len(all), 1000)])), nil
	}
	shown := page(c, all, 60)
	if before := c.query("before"); before != "" {
		shown = page(c, all[behind(all, before):], 60)
	} else if after := c.query("after"); after != "" {
		newer := all[:max(0, behind(all, after)-1)]
		shown = newer[max(0, len(newer)-c.number("per_page", 60)):]
	}
	list := s.postList(shown)
	if len(shown) > 0 {
		first, last := slices.Index(all, shown[0]), slices.Index(all, shown[len(shown)-1])
		if first > 0 {
			list["next_post_id"] = all[first-1].id
		}
		if last+1 < len(all) {
			list["prev_post_id"] = all[last+1].id
		}
	}
	return ok(list), nil
}

// behind returns where the posts older than one begin.
func behind(all []*post, id string) int {
	i := slices.IndexFunc(all, func(p *post) bool { return p.id == id })
	if i < 0 {
		return len(all)
	}
	return i + 1
}

func (s *Server) postList(all []*post) object {
	order, byID := make([]string, 0, len(all)), object{}
	for _, p := range all {
		order = append(order, p.id)
		byID[p.id] = s.wirePost(p)
	}
	return object{"order": order, "posts": byID, "next_post_id": "", "prev_post_id": "", "first_inaccessible_post_time": 0}
}

// thread lists a post and what was written under it.
func (s *Server) thread(c *call) (answer, error) {
	p, err := s.postNamed(c)
	if err != nil {
		return answer{}, err
	}
	root := p.id
	if p.root != "" {
		root = p.root
	}
	var all []*post
	for _, o := range s.order {
		if (o.id == root || o.root == root) && o.deletedAt == 0 {
			all = append(all, o)
		}
	}
	list := s.postList(all)
	list["has_next"] = false
	return ok(list), nil
}
