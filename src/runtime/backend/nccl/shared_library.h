// SharedLibrary finds functions of libraries at run time. See
// docs/development/decisions/0015-nccl-and-cuda-at-run-time.md.
#pragma once

#include <dlfcn.h>

#include <string>

namespace ddp::internal {

// Represents a library that stays open until the process ends. A table of its functions derives from it.
class SharedLibrary {
 public:
  // Returns why the library cannot be used: it cannot be opened, or it lacks a required function. Returns an empty
  // string if it can be used.
  const std::string& obstacle() const { return obstacle_; }

 protected:
  explicit SharedLibrary(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) obstacle_ = ::dlerror();
  }

  // Represents a function of any type. It is null if the library has no function of that name.
  struct Symbol {
    void* address;

    template <typename Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  Symbol find(const char* name) const { return {handle_ == nullptr ? nullptr : ::dlsym(handle_, name)}; }
  Symbol require(const char* name) {
    const Symbol symbol = find(name);
    if (symbol.address == nullptr && obstacle_.empty()) obstacle_ = "it has no " + std::string(name);
    return symbol;
  }

  std::string obstacle_;

 private:
  void* handle_ = nullptr;
};

}  // namespace ddp::internal
