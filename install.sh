#!/bin/sh
# Installs weir, from a release or from a directory with its files.
#
#   sh install.sh                                   the newest release, into /usr/local/bin
#   WEIR_VERSION=v0.1.0 sh install.sh               a certain one
#   WEIR_BIN=$HOME/.local/bin sh install.sh         into another directory
#   WEIR_DIST=dist sh install.sh                    from a directory, or another URL
#
# The archive must have the checksum in SHA256SUMS. Where minisign is installed, the signature of
# SHA256SUMS must be that of the key below, or of WEIR_KEY. A failure changes nothing.
set -eu

# make dist writes the key of the release here.
public_key=

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

# need_any PROGRAM... fails if none of these is installed.
need_any() {
	for tool in "$@"; do
		if command -v "$tool" >/dev/null 2>&1; then return; fi
	done
	case $# in
	1) fail "$1 is not installed; install it, then run this again" ;;
	*) fail "none of $* is installed; install one, then run this again" ;;
	esac
}

# need_programs fails before anything is fetched.
need_programs() {
	for program in uname dirname mktemp sed tr cut tar; do need_any "$program"; done
	need_any sha256sum shasum openssl
	case ${WEIR_DIST:-http://} in
	http://* | https://*) need_any curl wget ;;
	esac
}

platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no archive for $(uname -s) here; build weir with Go, or take the zip for Windows" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no archive for the architecture $(uname -m), only for amd64 and arm64; build weir with Go" ;;
	esac
}

# fetch NAME copies a file of the release into the temporary directory.
fetch() {
	case $from in
	http://* | https://*)
		if command -v curl >/dev/null 2>&1; then
			why=$(curl -fsSL -o "$tmp/$1" "$from/$1" 2>&1)
		else
			why=$(wget -nv -O "$tmp/$1" "$from/$1" 2>&1)
		fi
		;;
	*) why=$(cp "$from/$1" "$tmp/$1" 2>&1) ;;
	esac || fail "$1 was not fetched from $from: $(one_line "$why"); set WEIR_VERSION or WEIR_DIST to a place that has it"
}

one_line() { printf %s "$1" | tr '\n' ' '; }

# check_signature compares the signature of SHA256SUMS, or sets unchecked to the reason.
check_signature() {
	unchecked=
	if [ -z "$public_key" ]; then
		unchecked="this copy of install.sh has no public key; set WEIR_KEY"
	elif ! command -v minisign >/dev/null 2>&1; then
		unchecked="minisign is not installed"
	else
		fetch SHA256SUMS.minisig
		minisign -V -q -m "$tmp/SHA256SUMS" -x "$tmp/SHA256SUMS.minisig" -P "$public_key" >/dev/null 2>&1 ||
			fail "SHA256SUMS of $from is not signed by the key $public_key; do not use these files"
	fi
}

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1"
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 "$1"
	else
		openssl dgst -sha256 -r "$1"
	fi | cut -d ' ' -f 1
}

# may_write DIRECTORY reports whether files can be written there, or the directory can be made.
may_write() {
	dir=$1
	while [ ! -e "$dir" ]; do dir=$(dirname "$dir"); done
	[ -d "$dir" ] && [ -w "$dir" ]
}

main() {
	need_programs
	platform
	bin=${WEIR_BIN:-/usr/local/bin}
	may_write "$bin" ||
		fail "$bin cannot be written by this user; run this with sudo, or set WEIR_BIN=\$HOME/.local/bin"
	public_key=${WEIR_KEY:-$public_key}
	releases=https://github.com/weirlimit/weir/releases
	if [ -n "${WEIR_DIST:-}" ]; then
		from=${WEIR_DIST%/}
	elif [ -n "${WEIR_VERSION:-}" ]; then
		from=$releases/download/$WEIR_VERSION
	else
		from=$releases/latest/download
	fi

	tmp=$(mktemp -d 2>/dev/null) ||
		fail "no directory can be made in ${TMPDIR:-/tmp}; set TMPDIR to a place that can be written"
	new=
	trap 'rm -rf "$tmp" ${new:+"$new"}' EXIT
	trap 'exit 1' HUP INT TERM

	fetch SHA256SUMS
	check_signature
	archive=$(sed -n "s/^[0-9a-f]\{64\}  \(weir_[0-9.]*_${os}_${arch}\.tar\.gz\)\$/\1/p" "$tmp/SHA256SUMS")
	[ -n "$archive" ] || fail "SHA256SUMS of $from lists no archive for $os/$arch"
	fetch "$archive"
	want=$(sed -n "s/^\([0-9a-f]*\)  $archive\$/\1/p" "$tmp/SHA256SUMS")
	[ "$(sha256 "$tmp/$archive")" = "$want" ] ||
		fail "$archive does not have the checksum in SHA256SUMS; it was changed or cut off, so fetch it again"

	folder=${archive%.tar.gz}
	why=$(tar -xzf "$tmp/$archive" -C "$tmp" "$folder/weir" 2>&1) ||
		fail "$folder/weir was not unpacked from $archive: $(one_line "$why")"
	version=$("$tmp/$folder/weir" version 2>/dev/null) ||
		fail "weir of $archive does not run on this machine, $(uname -s) $(uname -m); where ${TMPDIR:-/tmp} permits no programs, set TMPDIR"
	case $version in
	*" $os/$arch "*) ;;
	*) fail "weir of $archive is not for $os/$arch: $version" ;;
	esac

	# A program that runs is replaced as a whole.
	[ ! -d "$bin/weir" ] || fail "$bin/weir is a directory; remove it, or set WEIR_BIN to another place"
	new=$bin/.weir.$$
	if ! { mkdir -p "$bin" && cp "$tmp/$folder/weir" "$new" && chmod 755 "$new" && mv -f "$new" "$bin/weir"; } 2>/dev/null; then
		fail "$bin/weir cannot be written; is the disk full?"
	fi
	echo "$version is $bin/weir"
	[ -z "$unchecked" ] || echo "the checksum is right; the signature was not checked, because $unchecked"
	case :$PATH: in
	*":$bin:"*) ;;
	*) echo "$bin is not in PATH: run $bin/weir, or add it" ;;
	esac
	echo "try a denial: $bin/weir check demo user=ann -n 11"
}

main
