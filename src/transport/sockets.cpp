#include "transport/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace ucudnn::transport {
namespace {

constexpr int kSocketKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

SocketAddress AddressFrom(const void* bytes, socklen_t size) {
  SocketAddress address;
  address.size = size;
  std::memcpy(&address.storage, bytes, size);
  return address;
}

const sockaddr* Generic(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

SocketAddress AnyAddress(int family, uint16_t port) {
  if (family == AF_INET6) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    any.sin6_addr = in6addr_any;
    return AddressFrom(&any, sizeof any);
  }
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  return AddressFrom(&any, sizeof any);
}

void SendAtOnce(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

ListeningSocket ListenAt(const SocketAddress& address) {
  ListeningSocket listening;
  Descriptor socket(::socket(address.storage.ss_family, kSocketKind, 0));
  const int on = 1, off = 0;
  const bool bound = socket &&
                     // With SO_REUSEADDR, the ports of a dead job's closed connections can be used
                     // immediately; the port of a living listener cannot.
                     setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                     (address.storage.ss_family != AF_INET6 ||
                      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
                     bind(socket.get(), Generic(address), address.size) == 0 &&
                     listen(socket.get(), 128) == 0;
  SocketAddress own;
  own.size = sizeof own.storage;
  if (!bound || getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.size)) {
    listening.error = errno;
    return listening;
  }
  listening.port = ntohs(own.storage.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&own.storage)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
  listening.socket = std::move(socket);
  return listening;
}

}  // namespace

bool SocketAddress::IsLoopback() const {
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
}

bool SocketAddress::IsOfThisHost() const {
  SocketAddress other = *this;  // the same address with any free port
  // A multicast or broadcast address does not belong to this host, although the system lets sockets
  // bind to it.
  if (other.storage.ss_family == AF_INET6) {
    auto* const six = reinterpret_cast<sockaddr_in6*>(&other.storage);
    if (IN6_IS_ADDR_MULTICAST(&six->sin6_addr)) return false;
    six->sin6_port = 0;
  } else {
    auto* const four = reinterpret_cast<sockaddr_in*>(&other.storage);
    const uint32_t number = ntohl(four->sin_addr.s_addr);
    if (IN_MULTICAST(number) || number == INADDR_BROADCAST) return false;
    four->sin_port = 0;
  }
  const Descriptor probe(::socket(other.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe && bind(probe.get(), Generic(other), other.size) == 0;
}

Result<std::vector<SocketAddress>> AddressesOf(const std::string& host, uint16_t port) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error != 0) {
    return Status::Error("host " + Quoted(host) + " is unknown: " + gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    addresses.push_back(AddressFrom(one->ai_addr, one->ai_addrlen));
  }
  freeaddrinfo(found);
  if (addresses.empty()) return Status::Error("host " + Quoted(host) + " has no IP address");
  return addresses;
}

SocketAddress LoopbackAddress(uint16_t port) {
  sockaddr_in loopback = {};
  loopback.sin_family = AF_INET;
  loopback.sin_port = htons(port);
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return AddressFrom(&loopback, sizeof loopback);
}

bool IsLoopbackText(const std::string& host) {
  in_addr four = {};
  in6_addr six = {};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

ListeningSocket ListenAt(Interfaces interfaces, uint16_t port) {
  if (interfaces == Interfaces::kLoopback) return ListenAt(LoopbackAddress(port));
  if (interfaces == Interfaces::kLoopback6) {
    sockaddr_in6 loopback = {};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_port = htons(port);
    loopback.sin6_addr = in6addr_loopback;
    return ListenAt(AddressFrom(&loopback, sizeof loopback));
  }
  ListeningSocket both = ListenAt(AnyAddress(AF_INET6, port));
  if (both.socket || both.error == EADDRINUSE || both.error == EACCES) return both;
  return ListenAt(AnyAddress(AF_INET, port));  // the host has no IPv6
}

Descriptor AcceptFrom(const Descriptor& listening) {
  Descriptor socket(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) SendAtOnce(socket);
  return socket;
}

ConnectedSocket ConnectTo(const SocketAddress& address, Clock::time_point deadline) {
  ConnectedSocket connected;
  Descriptor socket(::socket(address.storage.ss_family, kSocketKind, 0));
  connected.error = errno;
  if (!socket) return connected;
  connected.error = 0;
  if (connect(socket.get(), Generic(address), address.size) != 0) {
    connected.error = errno;
    if (errno != EINPROGRESS && errno != EINTR) return connected;
    pollfd wait = {.fd = socket.get(), .events = POLLOUT};
    do {
      const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
      wait.revents = 0;
      poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
    } while (wait.revents == 0 && Clock::now() < deadline);
    socklen_t size = sizeof connected.error;
    connected.error = ETIMEDOUT;
    if (wait.revents == 0) return connected;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &connected.error, &size);
    if (connected.error != 0) return connected;
  }
  // If nobody listens at a port of this host, TCP may connect the socket to itself.
  sockaddr_storage here = {}, there = {};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &here_size);
  getpeername(socket.get(), reinterpret_cast<sockaddr*>(&there), &there_size);
  if (here_size == there_size && std::memcmp(&here, &there, here_size) == 0) {
    connected.error = ECONNREFUSED;
    return connected;
  }
  SendAtOnce(socket);
  connected.socket = std::move(socket);
  return connected;
}

std::string OtherSideOf(int connection) {
  sockaddr_storage there = {};
  socklen_t size = sizeof there;
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&there), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&there), size, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an address that the system does not tell";
  }
  return std::string(host) + ":" + port;
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::vector<std::string> InterfaceAddresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & (IFF_LOOPBACK | IFF_UP)) != IFF_UP) continue;
    const int family = one->ifa_addr->sa_family;
    char text[NI_MAXHOST] = {};
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family != AF_INET && family != AF_INET6) continue;
    if (getnameinfo(one->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    // A '%' marks a link-local address, which is valid only on one interface.
    if (std::strchr(text, '%') == nullptr) addresses.emplace_back(text);
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace ucudnn::transport
