#include "runtime/backend/backend_choice.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include "support/expect_error.h"

using namespace ddp::test;
using ddp::BackendOffer;
using ddp::choose_backend;
using ddp::ErrorKind;
using Offers = std::vector<BackendOffer>;

namespace {

BackendOffer with_gpu(const std::string& device, const std::string& requested = "") {
  return {requested, {"", device}};
}
BackendOffer without_gpu(const std::string& obstacle, const std::string& requested = "") {
  return {requested, {obstacle, ""}};
}

}  // namespace

TEST_CASE("ranks that ask for different backends are told so") {
  expect_error(ErrorKind::mismatch, {"rank 0 asks for backend 'gloo'", "rank 2 for ''", "DDP_BACKEND"}, [] {
    choose_backend(Offers{{"gloo", {}}, {"gloo", {}}, {"", {}}});
  });
}

TEST_CASE("an unknown backend is refused with the nearest name") {
  expect_error(ErrorKind::invalid_argument, {"'nccll'", "Did you mean nccl?", "gloo, nccl, mpi"}, [] {
    choose_backend(Offers{{"nccll", {}}});
  });
  expect_error(ErrorKind::invalid_argument, {"'tensorflow'", "gloo, nccl, mpi"}, [] {
    choose_backend(Offers{{"tensorflow", {}}});
  });
}

TEST_CASE("a requested backend that does not work names the rank and the reason") {
  expect_error(ErrorKind::unavailable, {"nccl", "rank 1: no GPU"}, [] {
    choose_backend(Offers{with_gpu("a/1", "nccl"), without_gpu("no GPU", "nccl")});
  });
  expect_error(ErrorKind::unavailable, {"mpi", "not under mpirun"},
               [] { choose_backend(Offers{without_gpu("not under mpirun", "mpi")}); });
}

TEST_CASE("two ranks cannot share a GPU with nccl") {
  expect_error(ErrorKind::unavailable, {"ranks 0 and 2", "a/1"}, [] {
    choose_backend(Offers{with_gpu("a/1", "nccl"), with_gpu("a/2", "nccl"), with_gpu("a/1", "nccl")});
  });
}

TEST_CASE("without a request nccl is taken where every rank has a GPU of its own") {
  CHECK(choose_backend(Offers{with_gpu("a/1"), with_gpu("a/2"), with_gpu("b/1")}).name == "nccl");
}

TEST_CASE("without a request gloo is taken where nccl cannot work and the reason is kept") {
  const auto no_gpu = choose_backend(Offers{with_gpu("a/1"), without_gpu("no GPU")});
  CHECK(no_gpu.name == "gloo");
  CHECK(no_gpu.reason == "nccl cannot be used: rank 1: no GPU");
  const auto shared = choose_backend(Offers{with_gpu("a/1"), with_gpu("a/1")});
  CHECK(shared.name == "gloo");
  CHECK_THAT(shared.reason, Catch::Contains("same GPU (a/1)"));
  CHECK(choose_backend(Offers{without_gpu("no GPU")}).reason == "nccl cannot be used: no GPU");
}

TEST_CASE("a requested backend that works is taken") {
  CHECK(choose_backend(Offers{{"gloo", {"no GPU", ""}}}).name == "gloo");
  CHECK(choose_backend(Offers{with_gpu("a/1", "nccl")}).name == "nccl");
  CHECK(choose_backend(Offers{{"mpi", {}}, {"mpi", {}}}).name == "mpi");
}

TEST_CASE("an offer survives the store") {
  for (const BackendOffer& offer : {with_gpu("node0/0000:01:00.0", "nccl"), without_gpu("two\nlines: no GPU"),
                                    BackendOffer{}, BackendOffer{"gloo", {}}}) {
    CHECK(BackendOffer::decode(offer.encode()) == offer);
  }
}

TEST_CASE("a garbled offer is a mismatch") {
  for (const char* text : {"", "gloo", "gloo\ndevice"}) {
    expect_error(ErrorKind::mismatch, {"offer"}, [&] { (void)BackendOffer::decode(text); });
  }
}
