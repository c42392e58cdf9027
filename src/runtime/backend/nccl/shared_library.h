// Functions of libraries that are looked up at run time. docs/development/decisions/0015-nccl-and-cuda-at-run-time.md
#pragma once

#include <dlfcn.h>

#include <string>

namespace ddp::internal {

// A library that stays open until the process ends.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) obstacle_ = ::dlerror();
  }

  // Why it cannot be used: it cannot be opened, or has no function that was asked for. Empty: it can.
  const std::string& obstacle() const { return obstacle_; }

  // A function of any type; null if the library has none of that name.
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

 private:
  void* handle_ = nullptr;
  std::string obstacle_;
};

}  // namespace ddp::internal
