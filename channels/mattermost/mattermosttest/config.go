package mattermosttest

import (
	"maps"
	"net/http"
	"strconv"
)

// clientConfig is what clients are told of the configuration; those who are not
// logged in are told less.
func (s *Server) clientConfig(c *call) (answer, error) {
	if format := c.query("format"); format != "" && format != "old" {
		return answer{}, refuse(http.StatusNotImplemented, "api.config.client.old_format.app_error", "New format for the client configuration is not supported yet.")
	}
	enterprise := ""
	if s.config.Licensed {
		enterprise = "true"
	}
	settings := map[string]string{
		"AsymmetricSigningPublicKey": s.publicKey(), "BuildNumber": "local", "SiteURL": s.siteURL(),
		"Version": s.config.Version, "EnableCommands": yes(!s.config.NoCommands),
		"EnableBotAccountCreation": yes(!s.config.NoBotAccounts), "EnableUserAccessTokens": "true",
		"BuildEnterpriseReady": enterprise, "EnableGuestAccounts": "false", "DefaultClientLocale": "en",
	}
	t := s.tokens[secretOf(c.Request)]
	if t == nil || t.disabled || s.users[t.user].deletedAt != 0 {
		return ok(settings), nil
	}
	dms := "any"
	if s.config.DMsWithinTeam {
		dms = "team"
	}
	limit := -1
	if s.config.EditLimit > 0 {
		limit = int(s.config.EditLimit.Seconds())
	}
	maps.Copy(settings, map[string]string{
		"MaxPostSize": strconv.Itoa(s.config.MaxPostSize), "PostEditTimeLimit": strconv.Itoa(limit),
		"RequireEmailVerification": yes(s.config.RequireEmailVerification), "RestrictDirectMessage": dms,
		"ShowEmailAddress": yes(!s.config.HideEmails), "EnablePostUsernameOverride": yes(s.config.AllowOverrides),
		"EnablePostIconOverride": yes(s.config.AllowOverrides), "EnableCustomGroups": yes(s.config.Licensed),
		"EnableDeveloper": yes(s.config.Developer), "PostPriority": "true", "TeammateNameDisplay": "username",
		"MaxNotificationsPerChannel": "1000",
	})
	return ok(settings), nil
}

func yes(b bool) string { return strconv.FormatBool(b) }

func (s *Server) ping(*call) (answer, error) {
	return ok(object{
		"ActiveSearchBackend": "database", "AndroidLatestVersion": "", "AndroidMinVersion": "",
		"IosLatestVersion": "", "IosMinVersion": "", "status": "OK",
	}), nil
}

// license tells clients whether the server has one.
func (s *Server) license(*call) (answer, error) {
	if !s.config.Licensed {
		return ok(map[string]string{"IsLicensed": "false"}), nil
	}
	return ok(map[string]string{"IsLicensed": "true", "SkuShortName": "enterprise", "LDAPGroups": "true"}), nil
}
