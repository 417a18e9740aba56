package mattermosttest

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

const (
	opCreate = "create_post"

	maxProps = 800_000 // characters of JSON
	dedupe   = 30 * time.Second
)

// post is a post as the server keeps it, integrations and all.
type post struct {
	id, user, channel, root, message, kind, pendingID string
	props                                             object
	createdAt, updatedAt, editedAt, deletedAt         int64
	pinned                                            bool
}

// creation is a post that is being or has been created under a pending_post_id.
type creation struct {
	post *post // nil while it is in flight
	at   time.Time
}

// wire is a post as clients get it.
func (s *Server) wirePost(p *post) object {
	metadata, files := object{}, any([]string{})
	if _, has := p.props["attachments"]; has {
		metadata["embeds"] = []object{{"type": "message_attachment"}}
	}
	if p.kind == ephemeralKind {
		files = nil
	}
	o := object{
		"id": p.id, "create_at": p.createdAt, "update_at": p.updatedAt, "edit_at": p.editedAt, "delete_at": p.deletedAt,
		"is_pinned": p.pinned, "user_id": p.user, "channel_id": p.channel, "root_id": p.root, "original_id": "",
		"message": p.message, "type": p.kind, "props": stripped(p.props, nil), "hashtags": "", "file_ids": files,
		"pending_post_id": "", "remote_id": "", "reply_count": s.replies(p.id), "last_reply_at": 0,
		"participants": nil, "metadata": metadata,
	}
	if all := s.reactions[p.id]; len(all) > 0 {
		o["has_reactions"], metadata["reactions"] = true, all
	}
	return o
}

func (s *Server) replies(root string) (n int) {
	for _, p := range s.order {
		if p.root == root && root != "" && p.deletedAt == 0 {
			n++
		}
	}
	return n
}

// draft is what a client sends to create or change a post.
type draft struct {
	ID        string   `json:"id"`
	Channel   string   `json:"channel_id"`
	Root      string   `json:"root_id"`
	Message   *string  `json:"message"`
	Props     object   `json:"props"`
	PendingID string   `json:"pending_post_id"`
	Pinned    *bool    `json:"is_pinned"`
	Files     []string `json:"file_ids"`
}

func (d draft) text() string {
	if d.Message == nil {
		return ""
	}
	return *d.Message
}

// postAllowed says why somebody cannot post in a channel.
func (s *Server) postAllowed(u *user, id string) (*channel, error) {
	ch := s.channels[id]
	switch {
	case ch == nil && u.Admin:
		return nil, noChannel(id)
	case ch == nil, !s.reads(u, ch) && !u.has("system_post_all"):
		return nil, forbidden()
	case ch.Moderated && !u.Admin:
		return nil, forbidden()
	case ch.deletedAt != 0:
		return nil, refuse(http.StatusBadRequest, "api.post.create_post.can_not_post_to_deleted.error", "Can not post to deleted channel.")
	case ch.Type == "D" && s.apart(u, ch.Members):
		return nil, refuse(http.StatusBadRequest, "api.post.create_post.can_not_post_in_restricted_dm.error", "Cannot post in a restricted DM channel.")
	}
	return ch, nil
}

func (s *Server) createPost(c *call) (answer, error) {
	var d draft
	if err := c.read("post", &d); err != nil {
		return answer{}, err
	}
	ch, err := s.postAllowed(c.user, d.Channel)
	if err != nil {
		return answer{}, err
	}
	known, err := s.begin(c.user, d.PendingID)
	if err != nil {
		return answer{}, err
	}
	if known != nil {
		again := s.wirePost(known)
		delete(again, "metadata")
		return created(again), nil
	}
	s.released(func() { double.Wait(c.stall, c.Request, s.done) })
	p, err := s.add(c.user, ch, d)
	s.finish(c.user, d.PendingID, p)
	if err != nil {
		return answer{}, err
	}
	o := s.wirePost(p)
	o["pending_post_id"] = d.PendingID
	return created(o), nil
}

// begin finds the post that was created under the same pending id not long ago.
func (s *Server) begin(u *user, pending string) (*post, error) {
	if pending == "" {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	key, now := u.ID+" "+pending, s.config.Now()
	if k := s.pending[key]; k != nil && now.Sub(k.at) < dedupe {
		if k.post == nil {
			return nil, refuse(http.StatusInternalServerError, "api.post.deduplicate_create_post.pending",
				"Rejected post since another client is making the same request.")
		}
		return k.post, nil
	}
	s.pending[key] = &creation{at: now}
	return nil, nil //nolint:nilnil // as above
}

func (s *Server) finish(u *user, pending string, p *post) {
	switch key := u.ID + " " + pending; {
	case pending == "":
	case p == nil:
		delete(s.pending, key)
	default:
		s.pending[key] = &creation{p, s.config.Now()}
	}
}

// add creates a post.
func (s *Server) add(u *user, ch *channel, d draft) (*post, error) {
	if d.Root != "" {
		root := s.posts[d.Root]
		if root == nil || root.deletedAt != 0 || root.channel != ch.ID || root.root != "" {
			return nil, refuse(http.StatusBadRequest, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.")
		}
	}
	now := s.millis()
	p := &post{
		id: NewID(), user: u.ID, channel: ch.ID, root: d.Root, message: d.text(), props: settled(d.Props),
		createdAt: now, updatedAt: now, pendingID: d.PendingID,
	}
	if u.Bot {
		p.props["from_bot"] = "true"
	}
	if err := s.sizes(p); err != nil {
		return nil, err
	}
	s.posts[p.id] = p
	s.order = append(s.order, p)
	ch.lastPost = now
	ch.total++
	if p.root == "" {
		ch.totalRoot++
	}
	return p, nil
}

// sizes refuses a post that is too large.
func (s *Server) sizes(p *post) error {
	if utf8.RuneCountInString(p.message) > s.config.MaxPostSize {
		return refuse(http.StatusBadRequest, "model.post.is_valid.message_length.app_error", "Post Message property is longer than the maximum permitted length.")
	}
	raw, err := json.Marshal(p.props)
	if err != nil || utf8.RuneCount(raw) > maxProps {
		return refuse(http.StatusBadRequest, "model.post.is_valid.props.app_error", "Invalid props.")
	}
	return nil
}

// postNamed returns a post in a path that is there and may be read.
func (s *Server) postNamed(c *call) (*post, error) {
	id := c.path("post")
	if !validID(id) {
		return nil, invalidURL("post_id")
	}
	p := s.posts[id]
	if p == nil || p.deletedAt != 0 {
		return nil, noPost()
	}
	if ch := s.channels[p.channel]; !s.reads(c.user, ch) {
		return nil, forbidden()
	}
	return p, nil
}

func (s *Server) getPost(c *call) (answer, error) {
	p, err := s.postNamed(c)
	if err != nil {
		return answer{}, err
	}
	return ok(s.wirePost(p)), nil
}

func (s *Server) postsByIDs(c *call) (answer, error) {
	var ids []string
	if c.read("post_ids", &ids) != nil || len(ids) == 0 {
		return answer{}, invalidBody("post_ids")
	}
	list := []object{}
	for _, id := range ids {
		if p := s.posts[id]; p != nil && p.deletedAt == 0 && s.reads(c.user, s.channels[p.channel]) {
			o := s.wirePost(p)
			if m, isMap := o["metadata"].(object); isMap {
				delete(m, "embeds")
			}
			list = append(list, o)
		}
	}
	return ok(list), nil
}

func (s *Server) deletePost(c *call) (answer, error) {
	p, err := s.postNamed(c)
	if err != nil {
		return answer{}, err
	}
	if p.user != c.user.ID && !c.user.Admin {
		return answer{}, forbidden()
	}
	p.deletedAt = s.millis()
	return done, nil
}
