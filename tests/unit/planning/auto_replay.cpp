#include "auto_replay.h"

#include <algorithm>
#include <iterator>

#include "planning/micro_batch_sizes.h"

namespace ucudnn::planning {
namespace {

void Measure(std::span<const Candidate> table, const std::vector<int>& sizes, Replay& replay) {
  replay.asked.insert(replay.asked.end(), sizes.begin(), sizes.end());
  std::copy_if(table.begin(), table.end(), std::back_inserter(replay.measured),
               [&](const Candidate& row) {
                 return std::find(sizes.begin(), sizes.end(), row.micro.micro_batch) != sizes.end();
               });
}

Replay Finish(Replay replay, const PromiseRequest& request) {
  replay.rows = replay.measured.size();
  replay.division = FastestDivision(replay.measured, request);
  return replay;
}

}  // namespace

Replay ReplayAuto(std::span<const Candidate> table, const AutoRequest& request) {
  Replay replay;
  for (std::vector<int> next = NextSizes({}, {}, request); !next.empty();
       next = NextSizes(replay.measured, replay.asked, request)) {
    ++replay.rounds;
    Measure(table, next, replay);
  }
  return Finish(std::move(replay), request.promise);
}

Replay ReplayPolicy(BatchSizePolicy policy, std::span<const Candidate> table,
                    const PromiseRequest& request) {
  Replay replay;
  Measure(table, MicroBatchSizes(policy, request.n, request.step), replay);
  return Finish(std::move(replay), request);
}

}  // namespace ucudnn::planning
