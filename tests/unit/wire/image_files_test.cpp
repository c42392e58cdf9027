#include "wire/image_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/temporary_directory.h"
#include "wire/state_file.h"

using namespace ddp::wire;

TEST_CASE("the name of an image is parsed into its parts") {
  const KeptImage image{1'764'460'800'123, 2, 400, 8, true};
  CHECK(name_of(image) == "image-1764460800123-2-step-400-of-8-replicas");
  CHECK(image_named(name_of(image)) == image);
  CHECK(image_named("image-0-0-step-0-of-1-parts") == KeptImage{});
  for (const char* name :
       {"", "image-", "image-1-2-step-3-of-4", "image-1-2-step-3-of-4-others", "image-1-2-step-3-of-4-parts2",
        "image--1-2-step-3-of-4-parts", "image-01-2-step-3-of-4-parts", ".image-1-2-step-3-of-4-parts",
        "image-1-99999999999-step-3-of-4-parts", "image-1-2-step-x-of-4-parts"}) {
    CAPTURE(name);
    CHECK_FALSE(image_named(name));
  }
}

TEST_CASE("images of a later job or attempt are newer") {
  CHECK(KeptImage{2, 0, 1, 1, false} > KeptImage{1, 5, 900, 1, false});
  CHECK(KeptImage{2, 1, 1, 1, false} > KeptImage{2, 0, 900, 1, false});
  CHECK(KeptImage{2, 1, 2, 1, false} > KeptImage{2, 1, 1, 4, true});
}

TEST_CASE("an image file needs a correct entry and all of its data") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/" + own_file_of(3);
  const ddp::base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  CHECK_FALSE(image_entry(file.get()));
  CHECK_FALSE(image_entry(-1));
  std::vector<std::byte> head(kImageDataAt);
  const StateEntry entry = checked({7, 10, 0x1234, StateKind::final, 1, 3, 4, 0, 0});
  std::ranges::copy(std::as_bytes(std::span(&entry, 1)), head.begin());
  REQUIRE(write_at(file.get(), 0, head));
  CHECK_FALSE(image_entry(file.get()));
  REQUIRE(write_at(file.get(), kImageDataAt, std::vector<std::byte>(10)));
  CHECK(image_entry(file.get())->key == 0x1234);
  CHECK(whole_file_of(entry.key) == "whole-1234");
  head[3] = std::byte{1};
  REQUIRE(write_at(file.get(), 0, head));
  CHECK_FALSE(image_entry(file.get()));
}
