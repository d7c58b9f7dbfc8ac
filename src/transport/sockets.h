// TCP sockets: addresses, listening, connecting. All sockets are nonblocking, are closed by exec,
// and send without delay (TCP_NODELAY). Thread-compatible.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  bool IsLoopback() const;
  // Returns whether an interface of this host has this address.
  bool IsOfThisHost() const;
};

// Returns the addresses that the system's resolver finds, which may take seconds for an unknown
// name.
Result<std::vector<SocketAddress>> AddressesOf(const std::string& host, uint16_t port);
SocketAddress LoopbackAddress(uint16_t port);

// Returns whether the text is localhost or a numeric loopback address. Does not ask the resolver,
// because the same host name may be a loopback address on its own host and another address
// elsewhere.
bool IsLoopbackText(const std::string& host);

enum class Interfaces { kLoopback, kLoopback6, kAll };

struct ListeningSocket {
  Descriptor socket;
  uint16_t port = 0;
  int error = 0;  // errno; set if there is no socket
};
// Listens at `port`, or at a free port if `port` is 0.
ListeningSocket ListenAt(Interfaces interfaces, uint16_t port);
// Accepts the next connection. Returns none if no connection is waiting (errno is EAGAIN), or if
// the system has no descriptor left for it.
Descriptor AcceptFrom(const Descriptor& listening);

// Returns a text that names the address of the other side, such as "10.0.0.7:51000", or says that
// the system does not report it.
std::string OtherSideOf(int connection);

struct ConnectedSocket {
  Descriptor socket;
  int error = 0;  // errno (ETIMEDOUT after the deadline); set if there is no socket
};
ConnectedSocket ConnectTo(const SocketAddress& address, Clock::time_point deadline);

// HostName returns this host's name. InterfaceAddresses returns the numeric addresses of its
// interfaces other than loopback.
std::string HostName();
std::vector<std::string> InterfaceAddresses();

}  // namespace ucudnn::transport
