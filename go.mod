module github.com/weirlimit/weir

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1 // notifications about changed files
	go.yaml.in/yaml/v4 v4.0.0 // YAML as nodes with the place of every word
)

require golang.org/x/sys v0.49.0 // indirect
