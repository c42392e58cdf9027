// Across a real dlopen: the nccl plug-in as it was built. What is tested needs no GPU.
#include <ddp/error.h>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include "runtime/backend/plugin.h"

using namespace std::chrono_literals;

TEST_CASE("an error that a plug-in library throws is caught as ddp::Error") {
  void* library = ::dlopen(DDP_TEST_NCCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  INFO((library == nullptr ? ::dlerror() : "opened"));
  REQUIRE(library != nullptr);
  const auto function = reinterpret_cast<ddp::BackendPluginFunction>(::dlsym(library, ddp::kBackendPluginSymbol));
  REQUIRE(function != nullptr);
  const ddp::BackendPlugin* plugin = function();
  CHECK(plugin->abi == ddp::kBackendPluginAbi);
  CHECK(std::string(plugin->name) == "nccl");

  const auto store = ddp::make_memory_store(10s);
  store->set("nccl/id", "not an id");
  bool caught = false;
  try {
    plugin->create({1, 2, 0, 10s}, store);
  } catch (const ddp::Error& error) {
    caught = true;
    CHECK(error.kind() == ddp::ErrorKind::mismatch);
    CHECK(std::string(error.what()).find("9 bytes") != std::string::npos);
  }
  CHECK(caught);
}
