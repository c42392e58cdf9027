// Functions of libraries that are looked up at run time. docs/decisions/0015-nccl-and-cuda-at-run-time.md
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

  // `function` stays null if the library has none of that name.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  template <typename Function>
  void require(const char* name, Function*& function) {
    find(name, function);
    if (function == nullptr && obstacle_.empty()) obstacle_ = "it has no " + std::string(name);
  }

 private:
  void* handle_ = nullptr;
  std::string obstacle_;
};

}  // namespace ddp::internal
