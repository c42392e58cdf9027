# Sourced by the other scripts: configures and builds a preset, and shows how far it is.
#   build_preset NAME [--target NAME …] [cmake cache arguments]

# Writes what it reads to the file $1. Shows the steps of ninja: on a terminal in one line, elsewhere now and then.
show_build_progress() {
  local line told=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [ -t 1 ]; then
      printf '\r\033[Kbuild: %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif ((SECONDS - told >= 15)); then
      told=$SECONDS
      echo "build: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    fi
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
}

build_preset() {
  local preset=$1 log=build/$1.log began=$SECONDS targets=()
  shift
  while [ "${1:-}" = --target ]; do targets+=(--target "$2"); shift 2; done
  mkdir -p build
  echo "build: $preset (log: $log)"
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "build: configuring failed, see $log. Is everything installed? scripts/setup" >&2
    return 1
  fi
  # The table of what was found; the optional parts that were not found say how to get them.
  sed -n '/^-- ddplaunch /,/^-- Configuring done/p' "$log" | sed -e 's/^-- //' -e '/^Configuring done/d'
  if ! (set -o pipefail; cmake --build --preset "$preset" "${targets[@]}" 2>&1 | show_build_progress "$log"); then
    grep -nE 'error:|FAILED:' "$log" | head -n 20 >&2 || true
    echo "build: failed, see $log" >&2
    return 1
  fi
  echo "build: it took $((SECONDS - began)) s"
}
