package mattermosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// patchPost changes what a client names of a post; props as a whole.
func (s *Server) patchPost(c *call) (answer, error) {
	var d draft
	if err := c.read("post", &d); err != nil {
		return answer{}, err
	}
	p, err := s.editable(c)
	if err != nil {
		return answer{}, err
	}
	if s.tooLate(p, d.Message != nil || d.Props != nil) {
		return answer{}, s.editLimit()
	}
	if s.channels[p.channel].deletedAt != 0 {
		return answer{}, refuse(http.StatusBadRequest, "api.post.patch_post.can_not_update_post_in_deleted.error", "Can not update a post in a deleted channel.")
	}
	next := *p
	if d.Message != nil {
		next.message = *d.Message
	}
	if d.Props != nil {
		next.props = d.Props
	}
	if d.Pinned != nil {
		next.pinned = *d.Pinned
	}
	return s.edit(p, next)
}

// putPost replaces a post: what a client does not send is gone.
func (s *Server) putPost(c *call) (answer, error) {
	var d draft
	if err := c.read("post", &d); err != nil {
		return answer{}, err
	}
	if d.ID != c.path("post") {
		return answer{}, invalidBody("id")
	}
	p, err := s.editable(c)
	if err != nil {
		return answer{}, err
	}
	next := *p
	next.message, next.props, next.pinned = d.text(), d.Props, d.Pinned != nil && *d.Pinned
	if s.tooLate(p, next.message != p.message || d.Props != nil) {
		return answer{}, s.editLimit()
	}
	return s.edit(p, next)
}

// editable returns the post in a path if the caller may change it. One that is
// not there looks like somebody else's.
func (s *Server) editable(c *call) (*post, error) {
	id := c.path("post")
	if !validID(id) {
		return nil, invalidURL("post_id")
	}
	p := s.posts[id]
	switch {
	case p == nil, p.deletedAt != 0, !s.reads(c.user, s.channels[p.channel]), p.user != c.user.ID && !c.user.Admin:
		return nil, forbidden()
	}
	return p, nil
}

// tooLate applies the edit limit. Which changes it is for differs between
// versions; here it is for every one of text and props.
func (s *Server) tooLate(p *post, changes bool) bool {
	limit := s.config.EditLimit
	return limit > 0 && changes && s.millis() > p.createdAt+limit.Milliseconds()
}

func (s *Server) editLimit() *appError {
	return refuse(http.StatusBadRequest, "api.post.update_post.permissions_time_limit.app_error",
		fmt.Sprintf("Post edit is only allowed for %d seconds.", int(s.config.EditLimit.Seconds())))
}

func (s *Server) edit(p *post, next post) (answer, error) {
	if err := s.replace(p, next); err != nil {
		return answer{}, err
	}
	return ok(s.wirePost(p)), nil
}

// replace puts next in the place of a post. Only new text and new attachments
// count as an edit.
func (s *Server) replace(p *post, next post) error {
	switch {
	case p.deletedAt != 0:
		return refuse(http.StatusBadRequest, "api.post.update_post.permissions_details.app_error", "Already deleted id="+p.id+".")
	case p.kind != "":
		return refuse(http.StatusBadRequest, "api.post.update_post.system_message.app_error", "Unable to update system message.")
	case s.channels[p.channel].deletedAt != 0:
		return refuse(http.StatusBadRequest, "api.post.update_post.can_not_update_post_in_deleted.error", "Can not update a post in a deleted channel.")
	}
	next.props = settled(next.props)
	if err := s.sizes(&next); err != nil {
		return err
	}
	next.updatedAt = s.millis()
	if next.message != p.message || !sameJSON(next.props["attachments"], p.props["attachments"]) {
		next.editedAt = next.updatedAt
	}
	*p = next
	return nil
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
