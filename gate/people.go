package gate

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// people is who is who, as far as the configuration tells: which accounts, keys and
// mailboxes are one human's. Names of accounts, which others may have tomorrow, mean
// nothing until they are pinned to the id that has them. Safe for concurrent use once
// it is built; nil knows nobody.
type people struct {
	chats   map[string]Platform
	listed  bool              // people lists somebody
	persons map[string]bool   // whom people or a key names
	mails   map[string]string // mailbox -> person
	byID    map[string]string // account ("key:ann-cli", "slack:T1/U1") -> person
	names   map[string]string // "mattermost:ann" -> person, "" where only groups name it
	known   atomic.Pointer[accounts]
}

// accounts are what pinning adds to. They are replaced, never changed.
type accounts struct {
	owner map[string]string // account -> person, by id alone
	pins  map[string]string // "mattermost:ann" -> "mattermost:<id>"
}

func newPeople(chats map[string]Platform) *people {
	w := &people{chats: chats, persons: map[string]bool{}, mails: map[string]string{}, byID: map[string]string{}, names: map[string]string{}}
	w.known.Store(&accounts{owner: w.byID}) // one map until something is pinned
	return w
}

func (w *people) now() *accounts {
	if w == nil {
		return &accounts{}
	}
	return w.known.Load()
}

// named reports whether an account is written as a name.
func (w *people) named(account string) bool {
	on, id, _ := strings.Cut(account, ":")
	chat := w.chats[on]
	return chat != nil && chat.Named(id)
}

// own says whose an account is, while the policy is built.
func (w *people) own(account, person string) {
	w.persons[person] = true
	if w.named(account) {
		w.names[account] = person
		return
	}
	w.byID[account] = person
}

// mention remembers a name of a group, while the policy is built.
func (w *people) mention(account string) {
	if _, known := w.names[account]; !known && w.named(account) {
		w.names[account] = ""
	}
}

// configured is the person that an account, or a name of one, is listed for.
func (w *people) configured(account string) string {
	if person := w.names[account]; person != "" {
		return person
	}
	return w.byID[account]
}

// ownerOf is the person of an account. Where the workspace is left out, it is the one
// who has that id in any.
func (w *people) ownerOf(account string) string {
	if person := w.configured(account); person != "" || w.named(account) {
		return person
	}
	owner := w.now().owner
	if person := owner[w.resolve(account)]; person != "" || strings.Contains(account, "/") {
		return person
	}
	for other, person := range owner {
		if platform(other) == platform(account) && platform(account) != keyVoter && userPart(other) == userPart(account) {
			return person
		}
	}
	return ""
}

// resolve gives an account its id where it is a name that is pinned.
func (w *people) resolve(account string) string {
	if id, ok := w.now().pins[account]; ok {
		return id
	}
	return account
}

// exact reports whether an account is written as its platform writes it in the id of
// a voter, so that another text is another account.
func (w *people) exact(account string) bool {
	if w == nil {
		return false
	}
	on, id, _ := strings.Cut(account, ":")
	chat := w.chats[on]
	return chat != nil && chat.Check(KindUser, id) == nil && !chat.Named(id) && (on != Slack || strings.Contains(id, "/"))
}

// userPart is an account without its workspace: in an organisation one human has the
// same in each.
func userPart(account string) string {
	_, id, _ := strings.Cut(account, ":")
	return id[strings.LastIndexByte(id, '/')+1:]
}

// PersonOf returns the person that a voter id ("key:ann-cli", "slack:T1/U1") or a
// pinned name ("mattermost:ann") belongs to, empty if nobody knows.
func (p *Policy) PersonOf(voter string) string {
	known := p.people.now()
	if id, ok := known.pins[voter]; ok {
		voter = id
	}
	return known.owner[voter]
}

// elsewhere reports whether a person is known to be another account than this one on
// its chat, and no name of theirs there is left that might be it. An account of theirs
// in another workspace may be the same human here.
func (w *people) elsewhere(person, account string) bool {
	on, known, found := platform(account), w.now(), false
	if on == keyVoter {
		return false
	}
	for other, owner := range known.owner {
		if owner == person && platform(other) == on {
			if userPart(other) == userPart(account) {
				return false
			}
			found = true
		}
	}
	for name, of := range w.names {
		if of == person && platform(name) == on && known.owner[known.pins[name]] != person {
			return false
		}
	}
	return found
}

// lists reports whether the configuration knows a person of that name.
func (w *people) lists(person string) bool { return w != nil && w.persons[person] }

// byMail is the person whom people lists a mailbox for.
func (w *people) byMail(address string) string {
	if w == nil {
		return ""
	}
	return w.mails[mailbox(address)]
}

// hasMail reports whether the configuration says which mailboxes a person has.
func (w *people) hasMail(person string) bool {
	return w != nil && slices.Contains(slices.Collect(maps.Values(w.mails)), person)
}

// Names returns what the configuration calls accounts of a platform by, where that is
// no id but a name that somebody else may have tomorrow. Until it is pinned nobody
// matches by it.
func (p *Policy) Names(platform string) (names []string) {
	if p.people == nil {
		return nil
	}
	for account := range p.people.names {
		if on, name, _ := strings.Cut(account, ":"); on == platform {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Pin says which id an account has that the configuration calls by name. The first id
// of a name holds for as long as the policy does: who takes the name over later does
// not become that approver. Ids that are none, and names that nobody configured, are
// passed over. It may be called again, with more, while others read.
//
// Where the configuration lists the same account by id for somebody else, or two
// names of different people turn out to be one account, the id counts and the names
// join nobody: their people stay unknown there, which refuses more and never less.
func (p *Policy) Pin(platform string, ids map[string]string) {
	if p.people != nil {
		p.people.pin(func(pins map[string]string) {
			for name, id := range ids {
				if _, has := pins[platform+":"+name]; !has {
					pins[platform+":"+name] = platform + ":" + id
				}
			}
		})
	}
}

// keep takes over what names meant before: a reload must not believe who has them now.
func (p *Policy) keep(before *Policy) {
	if p.people != nil {
		p.people.pin(func(pins map[string]string) { maps.Copy(pins, before.people.now().pins) })
	}
}

func (w *people) pin(change func(pins map[string]string)) {
	for {
		old := w.known.Load()
		pins := map[string]string{}
		maps.Copy(pins, old.pins)
		change(pins)
		maps.DeleteFunc(pins, func(name, id string) bool {
			_, configured := w.names[name]
			return !configured || !w.exact(id)
		})
		if w.known.CompareAndSwap(old, &accounts{owner: w.owners(pins), pins: pins}) {
			return
		}
	}
}

// owners is whose the accounts are: those listed by id, and those that names are
// pinned to. What is listed by id counts, and one that two people's names mean is
// nobody's.
func (w *people) owners(pins map[string]string) map[string]string {
	owner := maps.Clone(w.byID)
	disputed := map[string]bool{}
	for name, id := range pins {
		person := w.names[name]
		if _, listed := w.byID[id]; listed || person == "" {
			continue
		}
		if other := owner[id]; other != "" && other != person {
			disputed[id] = true
		}
		owner[id] = person
	}
	maps.DeleteFunc(owner, func(id, _ string) bool { return disputed[id] })
	return owner
}
