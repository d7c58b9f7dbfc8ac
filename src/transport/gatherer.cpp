#include "transport/gatherer.h"

namespace ucudnn::transport {

Result<std::vector<std::string>> GatherAll(Gatherer& gatherer, int size, std::string_view mine,
                                           std::string_view doing) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<std::string> all, gatherer.Gather(mine, doing));
  if (all.size() == static_cast<size_t>(size)) return all;
  return Status::Error(std::string(doing) + ": " + std::to_string(all.size()) +
                       " ranks answered instead of " + std::to_string(size));
}

Status GatherVerdict(Gatherer& gatherer, int size, const Status& own, std::string_view doing) {
  const std::string mine = own.ok() ? "+" : "-" + own.message();
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          GatherAll(gatherer, size, mine, doing));
  for (int rank = 0; rank < size; ++rank) {
    if (all[rank] == "+") continue;
    const std::string reason = all[rank].empty() ? "no answer" : all[rank].substr(1);
    return Status::Error("rank " + std::to_string(rank) + ": " + reason);
  }
  return Status::Ok();
}

}  // namespace ucudnn::transport
