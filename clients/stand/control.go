package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A stand starts servers with proxies until it is closed. It is safe for concurrent use.
type stand struct {
	weir string // the program
	dir  string // for the files of servers

	mu      sync.Mutex
	last    int // the number of the newest server
	servers map[int]*server
}

// newStand returns a stand for the program.
func newStand(weir string) (s *stand, err error) {
	s = &stand{weir: weir, servers: map[int]*server{}}
	if s.dir, err = os.MkdirTemp("", "weir-stand"); err != nil {
		return nil, err
	}
	return s, nil
}

// close ends all servers.
func (s *stand) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, server := range s.servers {
		server.stop()
		delete(s.servers, number)
	}
	os.RemoveAll(s.dir)
}

// handler returns the handler of the control port.
func (s *stand) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /servers", func(w http.ResponseWriter, r *http.Request) {
		var o options
		err := read(r, &o)
		var started *server
		if err == nil {
			started, err = s.start(o)
		}
		answer(w, started, err)
	})
	mux.HandleFunc("POST /servers/{id}/fault", func(w http.ResponseWriter, r *http.Request) {
		var f fault
		server, err := s.find(r)
		if err == nil {
			err = read(r, &f)
		}
		if err == nil {
			err = server.fail(f)
		}
		answer(w, struct{}{}, err)
	})
	mux.HandleFunc("DELETE /servers/{id}", func(w http.ResponseWriter, r *http.Request) {
		server, err := s.find(r)
		if err == nil {
			s.mu.Lock()
			delete(s.servers, server.ID)
			s.mu.Unlock()
			server.stop()
		}
		answer(w, struct{}{}, err)
	})
	return mux
}

// start starts a server.
func (s *stand) start(o options) (*server, error) {
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	started, err := startServer(s.weir, s.dir, id, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.servers[id] = started
	s.mu.Unlock()
	return started, nil
}

// find returns the server of a request.
func (s *stand) find(r *http.Request) (*server, error) {
	id, _ := strconv.Atoi(r.PathValue("id")) // 0 is no server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[id] == nil {
		return nil, fmt.Errorf("no server %q runs; POST /servers starts one", r.PathValue("id"))
	}
	return s.servers[id], nil
}

// read decodes the body of a request. An unknown member is an error.
func read(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// answer sends a value, or an error with status 400.
func answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		value = map[string]string{"error": strings.TrimSpace(err.Error())}
	}
	json.NewEncoder(w).Encode(value)
}
