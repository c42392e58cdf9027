// RecordingChannel keeps the messages that it should send to other nodes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/ranks/rank_exchange.h"

namespace ddp::launcher {

class RecordingChannel : public RankChannel {
 public:
  explicit RecordingChannel(bool is_coordinator) : is_coordinator_(is_coordinator) {}
  bool is_coordinator() const override { return is_coordinator_; }
  void show(wire::Subject what, const std::string& text) override {
    shown.emplace_back(what, text);
    if (on_shown) on_shown();
  }
  void ask(wire::Subject what) override { asked.push_back(what); }

  std::vector<std::pair<wire::Subject, std::string>> shown;
  std::vector<wire::Subject> asked;
  std::function<void()> on_shown;

 private:
  const bool is_coordinator_;
};

}  // namespace ddp::launcher
