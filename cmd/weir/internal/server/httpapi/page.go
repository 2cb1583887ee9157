package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir/cmd/weir/internal/page"
)

var (
	pagePolicy = []string{page.SecurityPolicy}
	noReferrer = []string{"no-referrer"}
	noFrame    = []string{"DENY"}
)

// servePage answers with a file of the operators' page. The file has no data, so the request needs
// no secret. The page prompts for the token and sends it with its calls.
func (a *API) servePage(w http.ResponseWriter, r *http.Request) {
	file := page.Files[r.URL.Path]
	h := w.Header()
	h["Content-Security-Policy"] = pagePolicy
	h["Referrer-Policy"] = noReferrer
	h["X-Frame-Options"] = noFrame
	h["Content-Type"] = []string{file.Type}
	h["Content-Length"] = []string{strconv.Itoa(len(file.Text))}
	w.Write(file.Text)
}
