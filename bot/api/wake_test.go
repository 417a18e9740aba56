package api_test

import (
	"context"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/bot/api"
)

type apiConfig = api.Config

var aTail = regexp.MustCompile(`id=(\d+) .* cmd=xread`)

// killTails cuts the connections that read the log, four times a second.
func killTails(ctx context.Context, stop <-chan struct{}, db *redis.Client) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		list, err := db.ClientList(ctx).Result()
		if err != nil {
			continue
		}
		for _, m := range aTail.FindAllStringSubmatch(list, -1) {
			db.ClientKillByFilter(ctx, "ID", m[1])
		}
	}
}
