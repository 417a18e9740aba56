package mattermosttest

import (
	"context"
)

// Post is a post as the database has it.
type Post struct {
	ID, Channel, Root, User, Message string

	Props           map[string]any // with integrations
	Pending         string         // the pending_post_id that it was created with
	Edited, Deleted bool
	CreatedAt       int64 // milliseconds
	UpdatedAt       int64
}

func (p *post) snapshot() Post {
	return Post{
		ID: p.id, Channel: p.channel, Root: p.root, User: p.user, Message: p.message, Props: plain(p.props),
		Pending: p.pendingID, Edited: p.editedAt != 0, Deleted: p.deletedAt != 0, CreatedAt: p.createdAt, UpdatedAt: p.updatedAt,
	}
}

// Posts returns the posts of a channel, the oldest first, without deleted ones.
func (s *Server) Posts(channel string) []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Post
	for _, p := range s.order {
		if p.channel == channel && p.deletedAt == 0 {
			all = append(all, p.snapshot())
		}
	}
	return all
}

// Post returns a post by its id, deleted or not.
func (s *Server) Post(id string) (Post, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[id]
	if p == nil {
		return Post{}, false
	}
	return p.snapshot(), true
}

// Say lets a person write in a channel, or in a thread if root is not empty.
func (s *Server) Say(user, channel, root, text string) (post string) {
	s.t.Helper()
	return s.write(user, draft{Channel: channel, Root: root, Message: &text})
}

// Plant posts anything in anybody's name: nothing keeps people from posting
// buttons with the URL and context of somebody else.
func (s *Server) Plant(user, channel string, props map[string]any) (post string) {
	s.t.Helper()
	return s.write(user, draft{Channel: channel, Props: props})
}

func (s *Server) write(user string, d draft) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	if u == nil {
		s.t.Errorf("mattermosttest: there is no user %s", user)
		return ""
	}
	ch, err := s.postAllowed(u, d.Channel)
	if err == nil {
		var p *post
		if p, err = s.add(u, ch, d); err == nil {
			return p.id
		}
	}
	s.t.Errorf("mattermosttest: %s cannot write in %s: %v", user, d.Channel, err)
	return ""
}

// Remove deletes a post.
func (s *Server) Remove(post string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[post]
	if p == nil {
		s.t.Errorf("mattermosttest: there is no post %s", post)
		return
	}
	p.deletedAt = s.millis()
}

// Do makes any call of the API as this user's client does, for what there is no
// method for.
func (s *Server) Do(ctx context.Context, user, method, path string, body any) (status int, answer []byte, err error) {
	var o Outcome
	answer, err = s.as(ctx, user, method, path, body, &o)
	return o.Status, answer, err
}
