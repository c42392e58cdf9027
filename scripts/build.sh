# Sourced by the other scripts: configures and builds a preset, showing one line when all is well.
#   build_preset NAME [cmake cache arguments]
build_preset() {
  local preset=$1 log=build/$1.log
  shift
  mkdir -p build
  echo "build: $preset (log: $log)"
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "build: configuring failed, see $log. Is everything installed? scripts/setup" >&2
    return 1
  fi
  # The table of what was found; the optional parts that were not found say how to get them.
  sed -n '/^-- ddplaunch /,/^-- Configuring done/p' "$log" | sed -e 's/^-- //' -e '/^Configuring done/d'
  if ! cmake --build --preset "$preset" >>"$log" 2>&1; then
    grep -nE 'error:|FAILED:' "$log" | head -n 20 >&2 || true
    echo "build: failed, see $log" >&2
    return 1
  fi
}
