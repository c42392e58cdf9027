#include "launcher/start/facts/wrapper_programs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "launcher/start/facts/program_facts.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kScriptBytes = std::size_t{64} << 10;
constexpr std::array<std::string_view, 50> kWrappers = {
    // These are shells and programs that set up a process.
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "nice", "ionice", "chrt", "nohup", "setsid", "stdbuf",
    "time", "timeout", "numactl", "taskset", "hwloc-bind", "sudo", "tini", "dumb-init", "script", "unbuffer",
    // These are Python environments and launchers.
    "uv", "uvx", "conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "accelerate",
    "torchrun", "deepspeed",
    // These are container runtimes.
    "singularity", "apptainer", "starter", "starter-suid", "enroot", "docker", "podman",
    // These are tools that watch a program.
    "nsys", "ncu", "strace", "gdb", "perf"};

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // 0 if there is no "/"
}

bool mentions_python(std::string_view text) {
  return text.find("python") != std::string_view::npos || text.find(".py") != std::string_view::npos ||
         text.find("accelerate ") != std::string_view::npos;
}

// Checks a word of a wrapper's command line. The word after `sh -c` is itself a command line.
bool is_python_word(std::string_view word) {
  return name_of(word).starts_with("python") || word.ends_with(".py") ||
         word.find("python ") != std::string_view::npos || word.find("python3 ") != std::string_view::npos ||
         word.find(".py ") != std::string_view::npos;
}

// Returns whether the file is a text that mentions Python.
bool is_python_script(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // reading a pipe would consume its data
  std::ifstream stream(path, std::ios::binary);
  std::string text(kScriptBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text.find('\0') == std::string::npos && mentions_python(text);
}

// The word is a path, or a name to be found in PATH.
bool names_python_script(const std::string& word, const std::vector<std::string>& environment) {
  if (is_python_script(word)) return true;
  if (word.find('/') != std::string::npos || word.starts_with('-')) return false;
  return std::ranges::any_of(path_folders(environment),
                             [&](const std::string& folder) { return is_python_script(folder + "/" + word); });
}

}  // namespace

bool is_wrapper(std::string_view name) {
  return std::ranges::find(kWrappers, name) != kWrappers.end();
}

bool runs_python(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  if (command.empty()) return false;
  if (name_of(command.front()).starts_with("python")) return true;
  if (names_python_script(command.front(), environment)) return true;
  if (!is_wrapper(name_of(command.front()))) return false;
  return std::any_of(command.begin() + 1, command.end(), [&](const std::string& word) {
    return is_python_word(word) || names_python_script(word, environment);
  });
}

}  // namespace ddp::launcher
