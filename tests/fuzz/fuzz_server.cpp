// Four clients follow the input, in any order: they send whole requests of any kind or any bytes, send nothing, or
// leave. The last one never reads. Meanwhile and afterwards, the server must answer a fifth client, which does nothing
// wrong. The memory that the server reports must be within its limits. When the four clients have left, the server must
// hold no memory for them.
//
// The input is a list of actions. Bits 0-1 of an action's first byte are the client, bits 2-4 what it does; its
// parameters follow. The server is kept from one input to the next, which is much faster. It is replaced now and then,
// because ranks that have sent HELLO are never forgotten.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "fuzz/fuzz_bytes.h"
#include "fuzz/fuzz_targets.h"
#include "store/server/store_server.h"
#include "wire/store_forms.h"

namespace ddp::fuzz {
namespace {

using base::UniqueFd;
using wire::StoreDialect;
using wire::StoreOp;

constexpr store::StoreLimits kLimits{.key_bytes = 32,
                                     .value_bytes = 512,
                                     .keys_per_request = 8,
                                     .request_bytes = 2048,
                                     .table_bytes = 8192,
                                     .keys = 24,
                                     .unsent_bytes = std::size_t{96} << 10,
                                     .buffer_bytes = std::size_t{160} << 10,
                                     .waiting_bytes = 2048,
                                     .connections = 8};
constexpr int kMostActions = 12;
constexpr int kServerLife = 20'000;  // inputs
constexpr std::size_t kQuietClient = 3;
constexpr std::array<std::string_view, 8> kKeys = {"a", "b",     "/c",       "init/",
                                                   "",  "queue", "/barrier", wire::kStoreExtensionsKey};

class Client {
 public:
  explicit operator bool() const { return static_cast<bool>(socket_); }

  void connect(store::StoreServer& server, StoreDialect dialect) {
    std::array<int, 2> ends{};
    DDP_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0, errno);
    socket_.reset(ends[0]);
    // The buffer is small, so that a client that does not read soon blocks the server's replies.
    const int small = 4096;
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    server.add_client(UniqueFd(ends[1]), "fuzz");
    dialect_ = dialect;
    if (dialect == StoreDialect::current) {
      send(encode(wire::StoreRequest{.op = StoreOp::validate, .keys = {}, .values = {}, .number = wire::kStoreMagic}));
    }
  }
  void leave() { socket_.reset(); }

  // The bytes are lost if the server has closed the connection or reads slowly.
  void send(std::string_view bytes) { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }

  std::string receive() {
    static std::array<char, 65536> buffer;  // clearing one for each call would take most of the time
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
  }

  StoreDialect dialect() const { return dialect_; }

 private:
  UniqueFd socket_;
  StoreDialect dialect_ = StoreDialect::current;
};

wire::StoreRequest choose_request(FuzzBytes& bytes, StoreDialect dialect) {
  const wire::StoreForm& form = wire::kStoreForms[bytes.byte() % wire::kStoreForms.size()];
  wire::StoreRequest request{.op = form.opcode(dialect) < 0 ? StoreOp::check : form.op, .keys = {}, .values = {}};
  request.number = request.op == StoreOp::validate ? wire::kStoreMagic : bytes.byte();
  request.delta = static_cast<std::int8_t>(bytes.byte());
  const auto key = [&] { return std::string(kKeys[bytes.byte() % kKeys.size()]); };
  const auto value = [&] {
    const std::uint8_t size = bytes.byte();
    return size >= 0xF0 ? std::string(32 * (size - 0xEFU), 'v') : std::string(bytes.text(size % 16));
  };
  for (const wire::StoreForm& chosen : wire::kStoreForms) {
    if (chosen.op != request.op) continue;
    for (const char field : chosen.fields) {
      const std::size_t count = field == 'K' || field == 'M' ? bytes.byte() % (kLimits.keys_per_request + 1) : 1;
      for (std::size_t i = 0; i < count; ++i) {
        if (field == 'k' || field == 'K' || field == 'M') request.keys.push_back(key());
        if (field == 'v' || field == 'M') request.values.push_back(value());
      }
    }
  }
  return request;
}

class Scene {
 public:
  Scene() {
    auto server =
        store::StoreServer::listen("127.0.0.1", 0, {.limits = kLimits, .awake = std::chrono::microseconds(0)});
    DDP_CHECK(server, "no server");
    server_ = std::move(server).value();
    good_.connect(*server_, StoreDialect::current);
  }

  void run(Input input) {
    FuzzBytes bytes(input);
    last_.clear();
    for (int i = 0; i < kMostActions && !bytes.empty(); ++i) {
      act(bytes);
      server_->serve();
    }
    check_memory();
    ask({.op = StoreOp::ping, .keys = {}, .values = {}, .number = 0x01020304}, {"\4\3\2\1", 4});
    for (Client& client : clients_) client.leave();
    clean_up();
  }

 private:
  void act(FuzzBytes& bytes) {
    const std::uint8_t choice = bytes.byte();
    const std::size_t number = choice % clients_.size();
    Client& client = clients_[number];
    const int action = choice / 4 % 8;
    if (!client) client.connect(*server_, choice >= 0x80 ? StoreDialect::legacy : StoreDialect::current);
    switch (action) {
      case 0:
        client.leave();
        break;
      case 1:
        last_ = bytes.text(bytes.byte());
        client.send(last_);
        break;
      case 2: {  // sends the last request many times, whichever client sent it first
        std::string many;
        const std::uint8_t count = bytes.byte();
        for (int i = count >= 0xE0 ? 64 : count % 8 + 1; i > 0; --i) many += last_;
        client.send(many);
        break;
      }
      case 3: {  // sends a part of a request
        last_ = encode(choose_request(bytes, client.dialect()), client.dialect());
        client.send(std::string_view(last_).substr(0, bytes.byte()));
        break;
      }
      default:
        last_ = encode(choose_request(bytes, client.dialect()), client.dialect());
        client.send(last_);
    }
    if (number != kQuietClient && client) client.receive();
  }

  // Sends a request as the good client. The server must answer with exactly these bytes.
  void ask(const wire::StoreRequest& request, std::string_view answer) {
    good_.send(encode(request));
    std::string got;
    for (int i = 0; i < 100 && got.size() < answer.size(); ++i) {
      server_->serve();
      got += good_.receive();
    }
    DDP_CHECK(got == answer, to_string(request.op));
  }

  void check_memory() const {
    const wire::StoreReport report = server_->report();
    DDP_CHECK(report.table_bytes >= 0, report.table_bytes);
    DDP_CHECK(report.table_bytes <= static_cast<std::int64_t>(kLimits.table_bytes + kLimits.waiting_bytes),
              report.table_bytes);
    DDP_CHECK(report.key_count <= static_cast<std::int64_t>(kLimits.keys), report.key_count);
    std::int64_t held = 0;
    for (const auto& client : report.clients) held += client.held_bytes;
    DDP_CHECK(held <= static_cast<std::int64_t>(kLimits.buffer_bytes), held);
  }

  void clean_up() {
    wire::StoreReport report = server_->report();
    for (int i = 0; i < 100 && report.client_count > 1; ++i) {
      server_->serve();
      report = server_->report();
    }
    DDP_CHECK(report.client_count == 1, report.client_count);
    DDP_CHECK(report.clients.at(0).waiting_ms < 0, "the good client waits");
    std::string one;
    wire::put_i64(one, 1);
    for (const auto& key : report.keys) {
      for (std::int64_t i = 0; i < key.queued; ++i) {
        good_.send(encode(wire::StoreRequest{.op = StoreOp::queue_pop, .keys = {key.name}, .values = {}}));
        server_->serve();
        DDP_CHECK(good_.receive().size() >= 2 * sizeof(std::int64_t), key.name);
      }
      if (key.queued >= 0) continue;
      ask({.op = StoreOp::delete_key, .keys = {key.name}, .values = {}}, one);
    }
    if (!report.keys.empty()) report = server_->report();
    DDP_CHECK(report.key_count == 0, report.key_count);
    DDP_CHECK(report.table_bytes == 0, report.table_bytes);
  }

  std::unique_ptr<store::StoreServer> server_;
  Client good_;
  std::array<Client, 4> clients_;
  std::string last_;  // the last request sent
};

}  // namespace

void server(Input input) {
  static std::unique_ptr<Scene> scene;
  static int left = 0;
  if (left-- == 0) {
    scene = std::make_unique<Scene>();
    left = kServerLife;
  }
  scene->run(input);
}

}  // namespace ddp::fuzz
