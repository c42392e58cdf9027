#include "runtime/c/handles.h"

#include <ddp/error.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

struct thing;  // incomplete, like the types of <ddp/c.h>
using Things = HandleTable<thing, std::string>;

}  // namespace

TEST_CASE("a handle refers to its object until it is destroyed") {
  Things things("thing", 0);
  thing* one = things.add(std::make_shared<std::string>("one"));
  thing* two = things.add(std::make_shared<std::string>("two"));
  CHECK(*things.find("f", one) == "one");
  CHECK(*things.take("f", two) == "two");
  CHECK(things.size() == 1);
  expect_error(ErrorKind::invalid_argument, {"f: ", "is not a live thing: it was destroyed"},
               [&] { things.find("f", two); });
  expect_error(ErrorKind::invalid_argument, {"is not a live thing"}, [&] { things.take("f", two); });
}

TEST_CASE("a destroyed handle is never reused") {
  Things things("thing", 0);
  thing* old = things.add(std::make_shared<std::string>("old"));
  things.take("f", old);
  for (int i = 0; i < 100; ++i) CHECK(things.add(std::make_shared<std::string>()) != old);
}

TEST_CASE("a null pointer and a handle of another type are rejected") {
  Things things("thing", 0);
  Things others("other", 16);
  thing* other = others.add(std::make_shared<std::string>());
  things.add(std::make_shared<std::string>());
  expect_error(ErrorKind::invalid_argument, {"f: the thing is a null pointer"}, [&] { things.find("f", nullptr); });
  expect_error(ErrorKind::invalid_argument, {"is not a live thing"}, [&] { things.find("f", other); });
}

TEST_CASE("an object that a thread uses lives on while another thread destroys its handle") {
  Things things("thing", 0);
  thing* handle = things.add(std::make_shared<std::string>("in use"));
  const std::shared_ptr<std::string> used = things.find("f", handle);
  std::thread([&] { things.take("f", handle); }).join();
  CHECK(*used == "in use");
}

TEST_CASE("threads get different handles") {
  Things things("thing", 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) things.add(std::make_shared<std::string>());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(things.size() == 4000);
}
