# The other scripts source this file. It configures and builds a preset, and shows the progress.
#   build_preset NAME [--target NAME …] [cmake cache arguments]

# Copies its input to the file $1. Shows ninja's progress: in one line on a terminal, and otherwise periodically.
show_build_progress() {
  local line shown=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [ -t 1 ]; then
      printf '\r\033[Kbuild: %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif ((SECONDS - shown >= 15)); then
      shown=$SECONDS
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
    echo "build: configuring failed, see $log. To install missing packages, run scripts/setup" >&2
    return 1
  fi
  # Prints the table of the optional parts. Those that were not found say how to get them.
  sed -n '/^-- ddplaunch /,/^-- Configuring done/p' "$log" | sed -e 's/^-- //' -e '/^Configuring done/d'
  if ! (set -o pipefail; cmake --build --preset "$preset" "${targets[@]}" 2>&1 | show_build_progress "$log"); then
    grep -nE 'error:|FAILED:' "$log" | head -n 20 >&2 || true
    echo "build: failed, see $log" >&2
    return 1
  fi
  echo "build: it took $((SECONDS - began)) s"
}
