#include "launcher/run/process/tool_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostOutput = std::size_t{4} << 20;

}  // namespace

std::optional<std::string> find_tool(const std::string& name) {
  const char* path = std::getenv("PATH");                // NOLINT(concurrency-mt-unsafe)
  const char* environment = std::getenv("VIRTUAL_ENV");  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> folders = base::split(path == nullptr ? "" : path, ':');
  if (environment != nullptr) folders.push_back(std::string(environment) + "/bin");
  folders.push_back(our_folder());
  for (const std::string& folder : folders) {
    const std::string file = folder + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

base::UniqueFd file_with(const std::string& bytes) {
  base::UniqueFd file(::memfd_create("ddplaunch", MFD_CLOEXEC));
  if (!file || !write_all(file.get(), bytes, std::chrono::milliseconds(0))) return {};
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

ToolRun::ToolRun(net::EventLoop& loop, const std::string& path, const std::vector<std::string>& arguments,
                 std::function<void(std::string output)> done, base::UniqueFd input,
                 std::vector<std::string> environment) {
  HelperOptions options{{path}, false, input.get(), std::move(environment)};
  base::append(options.command, arguments);
  HelperCallbacks callbacks;
  callbacks.read = [this](std::size_t /*stream*/, std::string_view bytes) {
    if (text_.size() < kMostOutput) text_.append(bytes);
  };
  callbacks.ended = [this, done = std::move(done)](const base::ExitStatus&) { done(std::move(text_)); };
  auto helper = Helper::start(loop, options, std::move(callbacks));
  if (helper) helper_ = std::move(helper).value();
}

}  // namespace ddp::launcher
