#include "runtime/backend/gloo/gloo_device.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cstdlib>
#include <string>

#include "base/thread_name.h"
#include "net/address.h"

namespace ddp::internal {
namespace {

// On one node, every rank is reached over loopback. Between nodes, GLOO_SOCKET_IFNAME names the interface. Without it,
// the interface is the one that leads to the store, which all ranks reach. By itself, Gloo takes the address of the
// host name, which is a loopback address on many systems (Debian's 127.0.1.1).
gloo::transport::tcp::attr device_attributes(bool single_node, const std::string& store_host) {
  gloo::transport::tcp::attr attributes;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (interface != nullptr && *interface != '\0') {
    attributes.iface = interface;
  } else if (single_node) {
    attributes.hostname = "127.0.0.1";
  } else if (!store_host.empty()) {
    const auto own = net::own_address_towards(store_host);
    if (own && !own->is_loopback()) attributes.hostname = own->text();
  }
  return attributes;
}

}  // namespace

HurriedLoop::HurriedLoop(gloo::transport::Device& device)
    : signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  // Without the signal, closing connections works too, but takes longer.
  auto* tcp = dynamic_cast<gloo::transport::tcp::Device*>(&device);
  if (tcp != nullptr && signal_) tcp->registerDescriptor(signal_.get(), EPOLLIN, this);
}

void HurriedLoop::handleEvents(int /*events*/) {}

HurriedLoop::Guard::Guard(HurriedLoop& loop) : loop_(loop) {
  ::eventfd_write(loop_.signal_.get(), 1);
}

HurriedLoop::Guard::~Guard() {
  eventfd_t value = 0;
  ::eventfd_read(loop_.signal_.get(), &value);
}

std::shared_ptr<gloo::transport::Device> make_gloo_device(bool single_node, const std::string& store_host) {
  const base::NamesThreads named("gloo");
  return gloo::transport::tcp::CreateDevice(device_attributes(single_node, store_host));
}

}  // namespace ddp::internal
