#include "options/rendezvous_address.h"

#include "base/text.h"

namespace ucudnn {

Result<RendezvousAddress> RendezvousAddress::Parse(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://", kFile = "file:";
  const std::string_view value = Trim(text);
  RendezvousAddress address;
  if (value.starts_with(kFile)) {
    address.path = value.substr(kFile.size());
    if (!address.path.starts_with('/')) return Status::Error("no absolute path of a file");
    return address;
  }
  if (!value.starts_with(kTcp)) return Status::Error("neither tcp:// nor file:");
  const std::string_view place = value.substr(kTcp.size());
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return Status::Error("a host without a port");
  std::string_view host = place.substr(0, colon), port = place.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of("[]:") != std::string_view::npos) {
    return Status::Error("an IPv6 address without brackets, or another host that is none");
  }
  if (host.empty() || host.find_first_of("/@ \t\n?#") != std::string_view::npos) {
    return Status::Error("no host");
  }
  if (!ReadNumber(port, address.port) || address.port == 0) {
    return Status::Error("not a port from 1 to 65535");
  }
  address.host = host;
  return address;
}

std::string RendezvousAddress::Text() const {
  if (host.empty()) return "file:" + path;
  const bool brackets = host.find(':') != std::string::npos;
  return "tcp://" + (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace ucudnn
