#include "transport/meeting.h"

namespace ucudnn::transport {

Status CheckMeeting(const Meeting& meeting) {
  constexpr int kMostRanks = 1 << 16;
  // With these bounds, a greeting has at most kLargestGreeting bytes.
  constexpr size_t kLongestText = 200, kMostTermBytes = 8192;
  const Membership& mine = meeting.membership;
  const auto refused = [&mine](const std::string& why) {
    return Status::Error("rank " + std::to_string(mine.rank) + " cannot join: " + why);
  };
  if (mine.size < 1 || mine.size > kMostRanks || mine.rank < 0 || mine.rank >= mine.size) {
    return refused("there is no such rank in a job of " + std::to_string(mine.size));
  }
  if (mine.group < 0 || mine.group_rank < 0 || mine.group_rank >= mine.group_size ||
      mine.group_size > mine.size) {
    return refused("it cannot be number " + std::to_string(mine.group_rank) + " of " +
                   std::to_string(mine.group_size) + " in group " + std::to_string(mine.group));
  }
  if (meeting.token.size() > kLongestToken) {
    return refused("UCUDNN_RENDEZVOUS_TOKEN has " + std::to_string(meeting.token.size()) +
                   " bytes, more than " + std::to_string(kLongestToken));
  }
  for (const char c : meeting.token) {
    if (c <= ' ' || c > '~') return refused("UCUDNN_RENDEZVOUS_TOKEN holds more than ASCII text");
  }
  bool short_texts = meeting.version.size() <= kLongestText;
  size_t bytes = 0;
  for (const Term& term : meeting.terms) {
    short_texts &= term.name.size() <= kLongestText && term.value.size() <= kLongestText;
    bytes += term.name.size() + term.value.size();
  }
  short_texts &= bytes <= kMostTermBytes;
  if (!short_texts) return refused("a text to compare is longer than 200 bytes, or there are many");
  if (!meeting.place.in_file() && meeting.token.empty() && meeting.local_size > 0 &&
      meeting.local_size < mine.size) {
    return refused("the job has " + std::to_string(mine.size) + " ranks, " +
                   std::to_string(meeting.local_size) +
                   " of them on this host, and no token: set UCUDNN_RENDEZVOUS_TOKEN to the same "
                   "secret text on every host, or UCUDNN_RENDEZVOUS=file:PATH");
  }
  return Status::Ok();
}

}  // namespace ucudnn::transport
