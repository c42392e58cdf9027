# Scripts that install a Debian into a directory and work in it source this file. They need root and debootstrap.

roots_fail() { echo "${0##*/}: $*" >&2; exit 1; }

# Checks the requirements of install_root(). $1 is a mirror of Debian; if it is empty, this machine's apt mirror is used.
# Sets `mirror`.
prepare_roots() {
  mirror=$1
  [ "$(id -u)" -eq 0 ] || roots_fail "run this as root: it installs distributions and enters them with chroot"
  command -v debootstrap >/dev/null || roots_fail "debootstrap is missing. Run: apt-get install debootstrap"
  [ -z "$mirror" ] || return 0
  # shellcheck disable=SC2016  # apt expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
  [ "$mirror" ] || roots_fail "this machine's apt configuration names no mirror of Debian. Choose one with --mirror URL."
}

# install_root SUITE DIR: installs a minimal Debian, unless it already exists.
install_root() {
  local suite=$1 root=$2
  if [ ! -d "$root" ]; then
    rm -rf "$root.new"
    debootstrap --variant=minbase "$suite" "$root.new" "$mirror" || return
    # Packages do not start their services.
    printf '#!/bin/sh\nexit 101\n' >"$root.new/usr/sbin/policy-rc.d"
    chmod +x "$root.new/usr/sbin/policy-rc.d"
    mv "$root.new" "$root" || return
  fi
  cp /etc/hosts /etc/resolv.conf "$root/etc/"
}

# in_root DIR COMMAND...: runs a command in that Debian. When the command ends, its mounts and remaining processes end
# too.
in_root() {
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --pid --fork --kill-child bash -c '
    mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" || exit
    chroot "$0" "$@"' "$@"
}
