package api

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// humaConfig is what huma makes the document and reads requests with.
func (a *API) humaConfig() huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]any]())
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "approvalbot", Version: "1",
				Description: "Holds tool calls of AI agents until people agree. Every answer carries a verdict: run a call only if it is `allow`.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/"}},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key": {Type: "http", Scheme: "bearer", Description: "An API key, ab_…; `approvalbot keys new` makes one."},
				},
			},
		},
		Formats: map[string]huma.Format{
			"application/json": strictJSON,
			"json":             {Marshal: strictJSON.Marshal, Unmarshal: notRead}, // how huma finds problem+json
		},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

// op describes an operation. Its refusals are all problems.
func op(method, path, id, summary string) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary,
		MaxBodyBytes: maxBody, BodyReadTimeout: bodyTimeout,
		Errors: []int{400, 401, 403, 404, 409, 429, 503},
	}
}

// plain registers a route that huma does not serve, and documents it.
func (a *API) plain(h huma.API, path, id, summary, contentType string, handle http.HandlerFunc) {
	a.router.Get(path, handle)
	none := []map[string][]string{{}} // anybody may
	o := &huma.Operation{Method: http.MethodGet, Path: path, OperationID: id, Summary: summary, Security: none, Responses: map[string]*huma.Response{
		"200": {Description: summary, Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{}}}},
		"429": {Description: "Too many requests"},
	}}
	if path == "/v1/events" {
		o.Security = []map[string][]string{{"key": {}}}
		o.Parameters = []*huma.Param{{
			Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Goes on after that event, on any replica.",
		}}
	}
	h.OpenAPI().AddOperation(o)
}

// openapi serves the document.
func (a *API) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.document) // the caller left; nobody to tell
}
