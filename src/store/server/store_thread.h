// StoreThread runs a store server on its own thread, for rank 0 of a program without a launcher.
#pragma once

#include <memory>
#include <thread>

#include "store/server/store_server.h"

namespace ddp::store {

class StoreThread {
 public:
  explicit StoreThread(std::unique_ptr<StoreServer> server);
  // Serves until the last client has disconnected, but at most for limits::kStoreGoodbye.
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void run();

  std::unique_ptr<StoreServer> server_;  // used by the thread while it runs
  const std::uint16_t port_;
  base::UniqueFd stop_;
  std::thread thread_;
};

}  // namespace ddp::store
