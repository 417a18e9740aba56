package gate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// self is what is known of who one human is. Two selves are the same human if they
// share something, and two if something tells them apart. Otherwise nobody knows, and
// what nobody knows refuses.
//
// What somebody can bring about themselves must gain them nothing:
//
//   - An account is given by its platform and stays. It is the anchor: whoever has
//     voted or asked by it has, whatever they change about it.
//   - A person comes from the configuration, by account, key or listed mailbox.
//   - A mailbox is what the platform has verified just now. People can change theirs,
//     to one that they can read too: never to a colleague's, but to a second one of
//     their own, and whoever has two passes for two people across chats. Listing the
//     account in people ends that, as then the mailbox only ever adds to what they are.
//     Everything behind a plus sign is cut off, or one mailbox would be any number.
//   - A name of an account passes from one to another, so it is never compared: only
//     the id that it is pinned to is.
type self struct {
	account string   // "slack:T1/U1", "key:ann-cli"; empty if only a person or a mailbox is known
	persons []string // as the configuration calls them
	mail    string   // mailbox
	unknown bool     // said in a form that nothing can be compared with
}

// mailbox is where an e-mail address leads, as far as the text tells.
func mailbox(address string) string {
	local, domain, _ := strings.Cut(strings.ToLower(address), "@")
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	if domain == "" {
		return ""
	}
	return local + "@" + domain
}

// holder is the person of an address: whom people lists it for, else the mailbox.
func (w *people) holder(address string) string {
	box := mailbox(address)
	return cmp.Or(w.mails[box], box)
}

// who completes a voter by the person that they are. What an account is listed for
// counts before the mailbox it has. An outsider's mailbox was verified by another
// company, which can verify what it likes.
func (p *Policy) who(v Voter) Voter {
	if v.Account == Outsider || p.people == nil {
		v.Email = ""
	}
	v.Person = cmp.Or(v.Person, p.PersonOf(v.ID))
	if v.Person == "" && v.Email != "" {
		v.Person = p.people.holder(v.Email)
	}
	return v
}

// withoutMail is a completed voter but for what their mailbox tells.
func (p *Policy) withoutMail(v Voter) Voter {
	v.Email, v.Person = "", p.PersonOf(v.ID)
	return v
}

// selfOf is what is known of a completed voter, or of one who has voted.
func (p *Policy) selfOf(v Voter) self {
	s := self{account: v.ID, mail: mailbox(v.Email)}
	if isMail(v.Person) && !p.people.lists(v.Person) {
		s.mail = mailbox(v.Person)
	} else {
		s.add(v.Person)
	}
	s.add(p.PersonOf(v.ID))
	s.add(p.people.byMail(s.mail))
	return s
}

// said is who an agent says it acts for: a name of people, an address, or an account
// in the very form that its platform gives voters; and any plain name where people
// lists nobody, see namesOnly. Everything else, such as
// "slack:U1" without its workspace or a username that is not pinned, may be anybody.
func (p *Policy) said(text string) self {
	text = strings.TrimSpace(text)
	account := p.people.resolve(text)
	person := p.PersonOf(account)
	switch {
	case p.people.lists(text):
		return self{persons: []string{text}}
	case isMail(text):
		s := self{mail: mailbox(text)}
		s.add(p.people.byMail(text))
		return s
	case person != "":
		return self{account: account, persons: []string{person}}
	case p.people.exact(account):
		return self{account: account}
	case p.people.namesOnly() && nameForm.MatchString(text):
		return self{persons: []string{p.people.called(text)}}
	}
	return self{account: account, persons: []string{text}, unknown: true}
}

// nameForm is how a plain name looks, which is no form of an account or an address.
var nameForm = regexp.MustCompile(`^[\pL\pN][\pL\pN ._-]*$`)

// namesOnly reports whether nothing joins anybody to anything: people lists nobody, so
// that a name is all there is to know of those whose keys decide, and is compared with
// theirs. Where people lists somebody, it lists everybody whom an agent may name.
func (w *people) namesOnly() bool { return w != nil && !w.listed }

// called is the person whose name a text is, whatever its capitals; else the text.
func (w *people) called(text string) string {
	for person := range w.persons {
		if strings.EqualFold(person, text) {
			return person
		}
	}
	return text
}

func (s *self) add(person string) {
	if person != "" && !slices.Contains(s.persons, person) {
		s.persons = append(s.persons, person)
	}
}

// is reports whether both are certainly the same human.
func (s self) is(o self) bool {
	return s.account != "" && s.account == o.account || s.mail != "" && s.mail == o.mail ||
		slices.ContainsFunc(s.persons, func(p string) bool { return slices.Contains(o.persons, p) })
}

// apart reports whether two selves that are not the same are certainly two humans.
// Two accounts of one chat are (two keys need not be), and so are two whom the
// configuration names, and two with mailboxes of their own. A person and a stranger
// are if people says where the person is on the stranger's chat, or which mailboxes
// they have and the stranger has another.
func (p *Policy) apart(s, o self) bool {
	switch {
	case s.unknown || o.unknown:
		return false
	case neighbours(s.account, o.account):
		return true
	case len(s.persons) > 0 && len(o.persons) > 0:
		return true
	case s.mail != "" && o.mail != "":
		return true
	}
	return p.people.placed(s, o) || p.people.placed(o, s)
}

// neighbours reports whether two accounts are different ones of one chat. The same one
// in another workspace of an organisation is the same human.
func neighbours(a, b string) bool {
	on := platform(a)
	return a != "" && on == platform(b) && on != keyVoter && userPart(a) != userPart(b)
}

// placed reports whether a person is known to be somebody else where o is.
func (w *people) placed(s, o self) bool {
	return slices.ContainsFunc(s.persons, func(person string) bool {
		return o.account != "" && w.elsewhere(person, o.account) || o.mail != "" && w.hasMail(person)
	})
}
