#include "runtime/backend/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/backend/backend_errors.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// Returns the directory of the library (or program) that holds this function.
std::string own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

LoadedPlugin load_backend_plugin(const std::string& name) {
  const char* directory = std::getenv(wire::env::kPluginDir);  // NOLINT(concurrency-mt-unsafe)
  const std::string path =
      (directory != nullptr ? std::string(directory) : own_directory()) + "/libddp_" + name + ".so";
  if (::access(path.c_str(), F_OK) != 0) return {nullptr, not_built_text(name)};
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, ::dlerror()};
  const auto function = reinterpret_cast<BackendPluginFunction>(::dlsym(library, kBackendPluginSymbol));
  if (function == nullptr) return {nullptr, no_plugin_text(path)};
  const BackendPlugin* plugin = function();
  if (plugin->abi != kBackendPluginAbi) return {nullptr, other_plugin_text(path, plugin->abi, kBackendPluginAbi)};
  return {plugin, ""};
}

}  // namespace ddp::internal
