package mattermosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// Dialer connects to an address.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Pipes is a network without a machine, for [Config.Listener] and [Config.Dial].
type Pipes = double.Pipes

// NewPipes makes a network.
func NewPipes() *Pipes { return double.NewPipes() }

// Clock stands still until it is told to go on, for [Config.Now].
type Clock = double.Clock

// NewClock makes a clock.
func NewClock() *Clock { return double.NewClock() }

// longest is how long any integration has, whatever is configured.
const longest = 30 * time.Second

// client is what the server calls integrations with. It follows redirects.
func (s *Server) client() *http.Client {
	dial := s.config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 3 * time.Second}).DialContext
	}
	return &http.Client{
		Timeout: min(s.config.OutgoingTimeout, longest),
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := s.mayDial(ctx, address); err != nil {
				return nil, err
			}
			return dial(ctx, network, address)
		}},
	}
}

var errAddress = errors.New("address forbidden, you may need to set AllowedUntrustedInternalConnections to allow an integration access to your internal network")

// mayDial refuses addresses of the own network that are not allowed. Names are
// allowed by their letters, addresses by themselves or by a range.
func (s *Server) mayDial(ctx context.Context, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if s.config.Allowed == nil || slices.Contains(s.config.Allowed, host) {
		return nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if !s.mayReach(a.Unmap()) {
			return fmt.Errorf("%w: %s", errAddress, host)
		}
	}
	return nil
}

func (s *Server) mayReach(a netip.Addr) bool {
	if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() {
		return true
	}
	return slices.ContainsFunc(s.config.Allowed, func(entry string) bool {
		network, err := netip.ParsePrefix(entry)
		return err == nil && network.Contains(a) || entry == a.String()
	})
}

// reply is what an integration answered.
type reply struct {
	status int
	kind   string // content type
	body   []byte
}

// ask calls an integration.
func (s *Server) ask(c *call, method, target string, header http.Header, body []byte) (reply, error) {
	parsed, err := url.Parse(target)
	if err != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) || parsed.Host == "" {
		return reply{}, fmt.Errorf("no address of an integration: %q", target)
	}
	req, err := http.NewRequestWithContext(c.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header = header
	req.Header.Set("User-Agent", "Mattermost-Bot/1.1")
	req.Header.Set("Accept", "application/json")
	resp, err := s.outgoing.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	from := io.Reader(resp.Body)
	if s.since11(6) { // before that all of it is read
		from = io.LimitReader(resp.Body, 1<<20)
	}
	answer, err := io.ReadAll(from)
	return reply{resp.StatusCode, resp.Header.Get("Content-Type"), answer}, err
}

// post sends JSON to an integration.
func (s *Server) postJSON(c *call, target string, body []byte) (reply, error) {
	return s.ask(c, http.MethodPost, target, http.Header{"Content-Type": {"application/json"}}, body)
}

// since11 reports whether the server is of version 11 with at least that minor one.
func (s *Server) since11(minor int) bool {
	var x, y int
	_, _ = fmt.Sscanf(s.config.Version, "%d.%d", &x, &y)
	return x > 11 || x == 11 && y >= minor
}

// Forge sends JSON straight to an integration, as anybody can who reaches it.
func (s *Server) Forge(ctx context.Context, target string, body map[string]any) (status int, answer []byte, err error) {
	raw, err := marshal(body)
	if err != nil {
		return 0, nil, err
	}
	return s.Send(ctx, target, "application/json", raw)
}

// Send is [Server.Forge] with a body that need not be JSON.
func (s *Server) Send(ctx context.Context, target, contentType string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := s.outgoing.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// isPlugin reports whether an integration is a plugin, of which there are none.
func isPlugin(target string) bool { return strings.HasPrefix(target, "/plugins/") }
