// Runs a store server on a loop thread, and keeps its complaints.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/server/store_server.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/loop_thread.h"

namespace ddp::test {

class RunningStore {
 public:
  explicit RunningStore(store::StoreServerOptions options = {}) {
    thread_.run([&] {
      const auto complain = [this](const std::string& peer, const std::string& reason) {
        const std::lock_guard lock(mutex_);
        complaints_.push_back(peer + ": " + reason);
        complained_.notify_all();
      };
      options.on_rejection = complain;
      auto server = store::StoreServer::listen("127.0.0.1", 0, options);
      if (!server) return;
      server_ = std::move(server).value();
      watch_ = thread_.loop().keep_watching(server_->fd(), [this] { server_->serve(); });
    });
    REQUIRE(server_ != nullptr);
    port_ = server_->port();
  }
  ~RunningStore() { stop(); }

  std::uint16_t port() const { return port_; }
  void stop() {
    thread_.run([this] {
      watch_.reset();
      server_.reset();
    });
  }
  // Calls `action` on the server's thread.
  void with(const std::function<void(store::StoreServer& server)>& action) {
    thread_.run([&] { action(*server_); });
  }
  wire::StoreReport report() {
    wire::StoreReport report;
    thread_.run([&] { report = server_->report(); });
    return report;
  }
  void complains_of(const std::string& reason) {
    std::unique_lock lock(mutex_);
    const bool came = complained_.wait_for(lock, kPatience, [&] {
      for (const std::string& complaint : complaints_) {
        if (complaint.find(reason) != std::string::npos) return true;
      }
      return false;
    });
    INFO("a complaint of '" << reason << "'");
    CHECK(came);
  }
  std::size_t complaint_count() {
    const std::lock_guard lock(mutex_);
    return complaints_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable complained_;
  std::vector<std::string> complaints_;
  LoopThread thread_;
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
  std::uint16_t port_ = 0;
};

}  // namespace ddp::test
