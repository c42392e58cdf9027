#include "launcher/run/remote/controller_facts.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/file.h"
#include "base/hash.h"
#include "base/host_name.h"
#include "launcher/run/remote/remote_texts.h"
#include "launcher/start/facts/node_facts.h"
#include "store/handshake.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

// Returns the name that the user knows, if the directory has one. A link may have the same name on all hosts and lead
// to different directories.
std::string working_directory(const std::vector<std::string>& environment, std::error_code& error) {
  const std::filesystem::path now = std::filesystem::current_path(error);
  std::error_code ignored;
  const std::filesystem::path named = find_variable(environment, "PWD").value_or("");
  return !error && named.is_absolute() && std::filesystem::equivalent(named, now, ignored) ? named : now;
}

std::string hexadecimal(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

void read_host_file(const std::string& path, ControllerFacts& facts) {
  if (path.empty()) return;
  errno = 0;
  std::ifstream file(path);
  facts.host_file.assign(std::istreambuf_iterator<char>(file), {});
  if (file.is_open() && !file.bad() && (errno == 0 || !facts.host_file.empty())) return;
  facts.failure = host_file_unreadable_text(path, std::strerror(errno));
}

void read_token(const Options& options, ControllerFacts& facts) {
  // This checks that the file contains a token that no other user can read.
  if (const auto token = read_auth_token(options.auth_token_file, facts.environment); !token) {
    facts.failure = token.error().message;
    return;
  }
  facts.token = options.auth_token_file.empty() ? find_variable(facts.environment, wire::env::kAuthToken).value_or("")
                                                : base::read_file(options.auth_token_file);
  if (!options.auth_token_file.empty() && facts.token.ends_with('\n')) facts.token.pop_back();
  if (facts.token.find('\0') == std::string::npos) return;
  facts.failure = zero_in_token_text(options.auth_token_file);
}

}  // namespace

ControllerFacts gather_controller_facts(const Options& options, const std::vector<std::string>& environment) {
  ControllerFacts facts;
  std::error_code error;
  facts.host_name = base::host_name();
  facts.environment = environment;
  facts.directory = working_directory(environment, error);
  if (error) facts.failure = no_directory_text(error.message());
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) facts.failure = no_executable_text(error.message());
  facts.job_id = hexadecimal(store::new_nonce()).substr(0, 16);
  facts.new_token = hexadecimal(store::new_nonce());
  facts.nonce = hexadecimal(store::new_nonce()).substr(0, 16);
  facts.console_is_terminal = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  read_host_file(options.host_file, facts);
  read_token(options, facts);
  const auto read = [](const std::string& path) {
    std::string text = base::read_file(path);
    return text.empty() ? std::nullopt : std::optional(std::move(text));
  };
  auto found = read_cluster_env({options.scheduler, environment, facts.host_name, read});
  if (found) {
    facts.cluster = std::move(found.value().cluster);
  } else {
    facts.failure = found.error().message;
  }
  return facts;
}

}  // namespace ddp::launcher
