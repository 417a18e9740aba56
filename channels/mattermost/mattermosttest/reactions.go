package mattermosttest

import (
	"net/http"
	"slices"
)

type reaction struct {
	User      string `json:"user_id"`
	Post      string `json:"post_id"`
	Emoji     string `json:"emoji_name"`
	CreatedAt int64  `json:"create_at"`
	UpdatedAt int64  `json:"update_at"`
	DeletedAt int64  `json:"delete_at"`
	Remote    string `json:"remote_id"`
	Channel   string `json:"channel_id"`
}

// emojis are those that the double knows.
var emojis = []string{"white_check_mark", "x", "eyes", "hourglass", "+1", "-1", "heavy_check_mark", "no_entry"}

func (s *Server) react(c *call) (answer, error) {
	var r reaction
	if c.read("reaction", &r) != nil || !validID(r.User) || !validID(r.Post) || r.Emoji == "" {
		return answer{}, refuse(http.StatusBadRequest, "api.reaction.save_reaction.invalid.app_error", "Reaction is not valid.")
	}
	if r.User != c.user.ID {
		return answer{}, refuse(http.StatusForbidden, "api.reaction.save_reaction.user_id.app_error", "You cannot save reaction for the other user.")
	}
	p := s.posts[r.Post]
	switch {
	case p == nil, p.deletedAt != 0, !s.reads(c.user, s.channels[p.channel]):
		return answer{}, forbidden()
	case !slices.Contains(emojis, r.Emoji):
		return answer{}, refuse(http.StatusNotFound, "app.emoji.get_by_name.no_result", "We couldn’t find the emoji.")
	case s.channels[p.channel].deletedAt != 0:
		return answer{}, refuse(http.StatusForbidden, "api.reaction.save.archived_channel.app_error", "You cannot react in an archived channel.")
	}
	now := s.millis()
	r.CreatedAt, r.UpdatedAt, r.DeletedAt, r.Channel = now, now, 0, p.channel
	all := s.reactions[p.id]
	if i := slices.IndexFunc(all, r.same); i >= 0 {
		all[i].UpdatedAt = now
		return ok(r), nil
	}
	s.reactions[p.id] = append(all, r)
	p.updatedAt = now
	return ok(r), nil
}

func (r reaction) same(o reaction) bool { return r.User == o.User && r.Emoji == o.Emoji }

func (s *Server) reactionsOf(c *call) (answer, error) {
	p, err := s.postNamed(c)
	if err != nil {
		return answer{}, err
	}
	return ok(append([]reaction{}, s.reactions[p.id]...)), nil
}

func (s *Server) unreact(c *call) (answer, error) {
	u, err := s.userNamed(c)
	if err != nil {
		return answer{}, err
	}
	p, err := s.postNamed(c)
	if err != nil {
		return answer{}, err
	}
	if u != c.user && !c.user.Admin {
		return answer{}, forbidden()
	}
	gone := reaction{User: u.ID, Emoji: c.path("emoji")}
	s.reactions[p.id] = slices.DeleteFunc(s.reactions[p.id], gone.same)
	return done, nil
}
