package mattermosttest

import "maps"

// Seed is a post that was there before a test begins.
type Seed struct {
	ID, User, Channel, Root, Message string
	Props                            map[string]any
	Pinned, Edited                   bool
	CreatedAt, UpdatedAt             int64 // zero means now
	Reactions                        []map[string]any
}

// Sow puts a post into the database as it is.
func (s *Server) Sow(seed Seed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.millis()
	p := &post{
		id: seed.ID, user: seed.User, channel: seed.Channel, root: seed.Root, message: seed.Message, pinned: seed.Pinned,
		props: settled(maps.Clone(seed.Props)), createdAt: now, updatedAt: now,
	}
	if seed.CreatedAt != 0 {
		p.createdAt, p.updatedAt = seed.CreatedAt, seed.UpdatedAt
	}
	if seed.Edited {
		p.editedAt = p.updatedAt
	}
	s.posts[p.id] = p
	s.order = append(s.order, p)
	for _, r := range seed.Reactions {
		user, _ := r["user_id"].(string)
		emoji, _ := r["emoji_name"].(string)
		s.reactions[p.id] = append(s.reactions[p.id], reaction{User: user, Post: p.id, Emoji: emoji, CreatedAt: now, UpdatedAt: now, Channel: seed.Channel})
	}
}

// TokenOf makes a personal access token for anybody and returns its id, too.
func (s *Server) TokenOf(user string) (id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &token{id: NewID(), user: user, created: s.millis()}
	secret = NewID()
	s.tokens[secret] = t
	return t.id, secret
}

// InFlight returns how many posts are being created.
func (s *Server) InFlight() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.pending {
		if c.post == nil {
			n++
		}
	}
	return n
}
