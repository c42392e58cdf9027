// StderrTo redirects the process's standard error to a file for a while.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "support/catch.h"

class StderrTo {
 public:
  explicit StderrTo(const std::string& path) : saved_(::dup(STDERR_FILENO)) {
    const ddp::base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0666));
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~StderrTo() { ::dup2(saved_.get(), STDERR_FILENO); }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;
  static void say(const std::string& text) { REQUIRE(::write(STDERR_FILENO, text.data(), text.size()) > 0); }

 private:
  ddp::base::UniqueFd saved_;
};
