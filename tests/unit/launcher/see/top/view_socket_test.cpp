#include "launcher/see/top/view_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

TEST_CASE("a socket is in the runtime directory, or else in a directory owned by this user") {
  const TemporaryDirectory runtime;
  const TemporaryDirectory temporary;
  const auto folders = socket_folders(std::vector{"XDG_RUNTIME_DIR=" + runtime.path()}, temporary.path());
  const std::string own = temporary.path() + "/ddplaunch-" + std::to_string(::geteuid());
  CHECK(folders == std::vector<std::string>{runtime.path(), own});
  CHECK(socket_folders({}, temporary.path()) == std::vector<std::string>{own});
  CHECK(socket_folders(std::vector<std::string>{"XDG_RUNTIME_DIR=relative"}, temporary.path()) ==
        std::vector<std::string>{own});
  const std::vector<std::string> environment = {"XDG_RUNTIME_DIR=/run/user/7", "DDP_SOCKET_DIR=/shared"};
  CHECK(socket_folders(environment) == std::vector<std::string>{"/shared"});
  CHECK(socket_folders(std::span(environment).first(1)).front() == "/run/user/7");

  auto first = listen_in(folders, 7);
  REQUIRE(first);
  CHECK(first.value().path.starts_with(runtime.path() + "/ddplaunch-7-"));
  struct stat status {};
  REQUIRE(::stat(first.value().path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);

  ::chmod(runtime.path().c_str(), 0755);
  auto second = listen_in(folders, 8);
  REQUIRE(second);
  CHECK(second.value().path.starts_with(own + "/ddplaunch-8-"));
  REQUIRE(::stat(own.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(find_sockets(folders) == std::vector<FoundSocket>{{second.value().path, 8}});
  ::chmod(runtime.path().c_str(), 0700);
  CHECK(find_sockets(folders).size() == 2);
}

TEST_CASE("a directory that other users could have made is not used") {
  const TemporaryDirectory temporary;
  const auto folders = socket_folders(std::vector<std::string>{"XDG_RUNTIME_DIR=/nonexistent"}, temporary.path());
  const std::string own = folders.back();
  const TemporaryDirectory elsewhere;
  REQUIRE(::symlink(elsewhere.path().c_str(), own.c_str()) == 0);
  auto listening = listen_in(folders, 7);
  REQUIRE_FALSE(listening);
  CHECK_THAT(listening.error().message, Catch::Contains("is no directory"));
  ::unlink(own.c_str());
  ::mkdir(own.c_str(), 0777);
  ::chmod(own.c_str(), 0770);
  listening = listen_in(folders, 7);
  REQUIRE_FALSE(listening);
  CHECK_THAT(listening.error().message, Catch::Contains("other users may use") && Catch::Contains("chmod 700"));
  CHECK(find_sockets(folders).empty());
  if (::geteuid() == 0) {
    ::chmod(own.c_str(), 0700);
    REQUIRE(::chown(own.c_str(), 65534, 65534) == 0);
    CHECK_THAT(check_socket_folder(own)->message, Catch::Contains("belongs to another user"));
  }
  CHECK_THAT(check_socket_folder("/nonexistent")->message, Catch::Contains("No such file or directory"));
}

TEST_CASE("views connect only to processes of this user and only at paths that are short enough") {
  const TemporaryDirectory directory;
  const std::vector<std::string> folders = {directory.path()};
  const auto listening = listen_in(folders, 7);
  REQUIRE(listening);
  CHECK_FALSE(accept_from(listening.value().fd.get()));
  const auto fd = connect_to(listening.value().path);
  REQUIRE(fd);
  const auto accepted = accept_from(listening.value().fd.get());
  REQUIRE(accepted);
  CHECK(is_own_peer(accepted.get()));
  const auto too_long = connect_to("/" + std::string(200, 'x'));
  REQUIRE_FALSE(too_long);
  CHECK_THAT(too_long.error().message, Catch::Contains("too long"));
  const std::string deep = directory.path() + "/" + std::string(100, 'y');
  ::mkdir(deep.c_str(), 0700);
  CHECK_FALSE(listen_in({deep}, 7));
}

TEST_CASE("launchers in two containers with the same pid keep their sockets") {
  const TemporaryDirectory directory;
  const std::vector<std::string> folders = {directory.path()};
  const auto one = listen_in(folders, 1);
  const auto other = listen_in(folders, 1);
  REQUIRE(one);
  REQUIRE(other);
  CHECK(one.value().path != other.value().path);
  CHECK(find_sockets(folders).size() == 2);
  for (const FoundSocket& socket : find_sockets(folders)) {
    CHECK(socket.pid == 1);
    CHECK(connect_to(socket.path));
  }
}

TEST_CASE("an abandoned socket is removed by a view or by the next launcher with the same pid") {
  const TemporaryDirectory directory;
  const std::vector<std::string> folders = {directory.path()};
  for (const pid_t pid : {7, 8}) REQUIRE(listen_in(folders, pid));  // nothing listens afterwards
  const std::string of_other_computer = directory.path() + "/ddplaunch-7-000000000000.sock";
  REQUIRE(::rename(listen_in(folders, 9).value().path.c_str(), of_other_computer.c_str()) == 0);
  const auto next = listen_in(folders, 7);
  REQUIRE(next);
  REQUIRE(find_sockets(folders).size() == 3);
  for (const FoundSocket& socket : find_sockets(folders)) {
    const auto fd = connect_to(socket.path);
    CHECK(bool(fd) == (socket.path == next.value().path));
    if (fd) continue;
    CHECK(fd.error().is_stale);
    remove_stale(socket);
  }
  CHECK(find_sockets(folders).size() == 2);
  CHECK(::access(of_other_computer.c_str(), F_OK) == 0);
}

TEST_CASE("other files in the directory are not taken for sockets") {
  const TemporaryDirectory directory;
  for (const char* name : {"ddplaunch-.sock", "ddplaunch-x.sock", "ddplaunch--7.sock", "ddplaunch-7-0123456789ab.sock~",
                           "ddplaunch-0.sock", "ddplaunch-7.socket", "other-7.sock", "ddplaunch-99999999999.sock",
                           ".sock", "ddplaunch-.soc"}) {
    std::ofstream(directory.path() + "/" + name) << "x";
  }
  CHECK(find_sockets({directory.path(), "/nonexistent"}).empty());
}
