#include "runtime/backend/backend_choice.h"

#include <ddp/error.h>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp::test;
using ddp::ErrorKind;
using ddp::internal::BackendOffer;
using ddp::internal::choose_backend;
using Offers = std::vector<BackendOffer>;

namespace {

// Returns an offer in which nccl has this probe result, and everything else works.
BackendOffer with_nccl(const std::string& requested, const ddp::internal::ProbeResult& probe) {
  BackendOffer offer{requested, {}};
  for (const std::string& name : ddp::internal::wanted_backends(requested)) {
    offer.candidates.push_back({name, name == "nccl" ? probe : ddp::internal::ProbeResult{}});
  }
  return offer;
}
BackendOffer with_gpu(const std::string& device, const std::string& requested = "") {
  return with_nccl(requested, {"", device});
}
BackendOffer without_gpu(const std::string& obstacle, const std::string& requested = "") {
  return with_nccl(requested, {obstacle, ""});
}
BackendOffer plain(const std::string& requested) {
  return with_nccl(requested, {});
}

}  // namespace

TEST_CASE("ranks that request different backends get an error that says so") {
  expect_error(ErrorKind::mismatch, {"rank 0 requests backend 'gloo'", "rank 2 requests ''", "DDP_BACKEND"}, [] {
    choose_backend(Offers{plain("gloo"), plain("gloo"), plain("")});
  });
}

TEST_CASE("an unknown backend is rejected with the nearest name") {
  expect_error(ErrorKind::invalid_argument, {"'nccll'", "Did you mean nccl?", "cpu, gloo, nccl, mpi"},
               [] { choose_backend(Offers{plain("nccll")}); });
  expect_error(ErrorKind::invalid_argument, {"'tensorflow'", "cpu, gloo, nccl, mpi"},
               [] { choose_backend(Offers{plain("tensorflow")}); });
}

TEST_CASE("a requested backend that does not work names the rank and the reason") {
  expect_error(ErrorKind::unavailable, {"nccl", "rank 1: no GPU"}, [] {
    choose_backend(Offers{with_gpu("a/1", "nccl"), without_gpu("no GPU", "nccl")});
  });
  expect_error(ErrorKind::unavailable, {"mpi", "not under mpirun"}, [] {
    choose_backend(Offers{{"mpi", {{"mpi", {"not under mpirun", ""}}}}});
  });
}

TEST_CASE("two ranks cannot share a GPU with nccl") {
  expect_error(ErrorKind::unavailable, {"ranks 0 and 2", "a/1"}, [] {
    choose_backend(Offers{with_gpu("a/1", "nccl"), with_gpu("a/2", "nccl"), with_gpu("a/1", "nccl")});
  });
}

TEST_CASE("nccl is chosen by default if every rank has its own GPU") {
  CHECK(choose_backend(Offers{with_gpu("a/1"), with_gpu("a/2"), with_gpu("b/1")}).name == "nccl");
}

TEST_CASE("cpu is chosen by default if nccl cannot work, and the reason is kept") {
  const auto no_gpu = choose_backend(Offers{with_gpu("a/1"), without_gpu("no GPU")});
  CHECK(no_gpu.name == "cpu");
  CHECK(no_gpu.reason == "nccl cannot be used: rank 1: no GPU");
  const auto shared = choose_backend(Offers{with_gpu("a/1"), with_gpu("a/1")});
  CHECK(shared.name == "cpu");
  CHECK_THAT(shared.reason, Catch::Contains("same GPU (a/1)"));
  CHECK(choose_backend(Offers{without_gpu("no GPU")}).reason == "nccl cannot be used: no GPU");
}

TEST_CASE("gloo is chosen if there is no shared memory") {
  BackendOffer offer = without_gpu("no GPU");
  offer.candidates[1].probe.obstacle = "memfd_create: Operation not permitted";
  const auto choice = choose_backend(Offers{offer});
  CHECK(choice.name == "gloo");
  CHECK(choice.reason == "nccl cannot be used: no GPU; cpu cannot be used: memfd_create: Operation not permitted");
}

TEST_CASE("the first working one of several requested backends is chosen") {
  CHECK(choose_backend(Offers{with_gpu("a/1", "nccl,gloo")}).name == "nccl");
  const auto second = choose_backend(Offers{without_gpu("no GPU", "nccl,gloo")});
  CHECK(second.name == "gloo");
  CHECK(second.reason == "nccl cannot be used: no GPU");
  expect_error(ErrorKind::invalid_argument, {"'glou'", "gloo?"}, [] { choose_backend(Offers{plain("nccl,glou")}); });
}

TEST_CASE("a requested backend that works is chosen") {
  for (const char* name : {"cpu", "gloo", "nccl", "mpi"}) {
    const auto choice = choose_backend(Offers{plain(name), plain(name)});
    CHECK(choice.name == name);
    CHECK(choice.reason == "requested");
  }
}

TEST_CASE("a backend offer is unchanged after its way through the store") {
  for (const BackendOffer& offer :
       {with_gpu("node0/0000:01:00.0", "nccl"), without_gpu("two\nlines: no GPU"), plain("gloo"), plain("unknown")}) {
    CHECK(BackendOffer::decode(offer.encode()) == offer);
  }
}

TEST_CASE("a garbled backend offer is a mismatch") {
  for (const char* text : {"", "gloo", "gloo\x1egloo\x1f",
                           "gloo\x1e"
                           "cpu\x1f\x1f"}) {
    expect_error(ErrorKind::mismatch, {"offer"}, [&] { (void)BackendOffer::decode(text); });
  }
}
