#include "command/spatial/table.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/numbers.h"
#include "command/text_table.h"

namespace ucudnn::command {
namespace {

using planner::NextExact;
using planner::OnesAre;
using planner::StripedOperator;
using planner::StripeTraffic;
using planner::Striping;
using planner::Verdict;

std::string BytesText(int64_t bytes) {
  return bytes == 0 ? "-" : FormatByteSize(static_cast<size_t>(bytes));
}

std::string SizeText(const Spatial& extents, int spatial_rank) {
  std::vector<std::string> texts;
  for (size_t axis = kMaxSpatial - static_cast<size_t>(spatial_rank); axis < kMaxSpatial; ++axis) {
    texts.push_back(std::to_string(extents[axis]));
  }
  return Join(texts, "x");
}

// Returns whether each rank computes the operator exactly from its own stripe. Such operators are
// only counted, and have no rows in the table.
bool IsLocal(const StripedOperator& made) {
  return made.judgement.verdict == Verdict::kExact && made.exchanges.empty() &&
         made.judgement.output.IsCut() && made.kind != std::string("input");
}

std::string Stripes(const StripedOperator& made) {
  const std::string text = made.judgement.output.Text();
  return text.empty() ? "same on all" : text;
}

void PrintOperators(const Striping& striping) {
  size_t name = 8, stripes = 7;
  for (const StripedOperator& made : striping.operators) {
    if (IsLocal(made)) continue;
    name = std::max(name, made.name.size());
    stripes = std::max(stripes, Stripes(made).size());
  }
  const int name_width = static_cast<int>(std::min<size_t>(name, 40));
  const int stripes_width = static_cast<int>(std::min<size_t>(stripes, 40));
  const TextColumns columns = {
      {"operator", -name_width, 0}, {"", -22, 2},    {"output", -18}, {"stripes", -stripes_width},
      {"verdict", -9, 2},           {"forward", 10}, {"step", 10},    {"summed", 10}};
  PrintHead(columns);
  std::map<std::string, int> local;
  for (const StripedOperator& made : striping.operators) {
    if (IsLocal(made)) {
      ++local[made.kind];
      continue;
    }
    int64_t summed = 0;
    for (const planner::Exchange& exchange : made.exchanges) summed += exchange.summed;
    const auto received = [&](bool forward_only) {
      return BytesText(
          planner::TrafficOf(made.exchanges, striping.grid, forward_only).most_received);
    };
    PrintRow(columns, {made.name.substr(0, static_cast<size_t>(name_width)), made.kind,
                       Describe(made.judgement.output.shape),
                       Stripes(made).substr(0, static_cast<size_t>(stripes_width)),
                       VerdictName(made.judgement.verdict), received(true), received(false),
                       BytesText(summed)});
  }
  std::printf(
      "forward, step: what the rank that receives most receives, in a forward pass and in a "
      "training step; summed: what ranks add up\n");
  if (local.empty()) return;
  std::vector<std::string> counts;
  for (const auto& [kind, count] : local) counts.push_back(std::to_string(count) + " " + kind);
  std::printf("exact from each rank's own stripe alone: %s\n", Join(counts, ", ").c_str());
}

// Prints each reason why operators are not Verdict::kExact, with the names of these operators. Also
// prints the operators that are not known.
void PrintReasons(const Striping& striping) {
  struct Reason {
    Verdict verdict;
    std::string why;
    std::vector<std::string> names;
  };
  std::vector<Reason> reasons;
  for (const StripedOperator& made : striping.operators) {
    const planner::Judgement& judgement = made.judgement;
    if (judgement.verdict == Verdict::kExact) continue;
    const auto same = std::find_if(reasons.begin(), reasons.end(), [&](const Reason& reason) {
      return reason.verdict == judgement.verdict && reason.why == judgement.why;
    });
    if (same != reasons.end()) {
      same->names.push_back(made.name);
    } else {
      reasons.push_back({judgement.verdict, judgement.why, {made.name}});
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.verdict > b.verdict; });
  for (const Reason& reason : reasons) {
    std::printf("%s: %s: %s\n", VerdictName(reason.verdict), FirstOf(reason.names).c_str(),
                reason.why.c_str());
  }
  for (const std::string& unknown : striping.unknown) {
    std::printf("unvouched: %s: it is not known, and was passed through\n", unknown.c_str());
  }
}

void PrintConclusion(const Striping& striping) {
  const std::string grid = striping.grid.Text();
  const int refused = striping.Count(Verdict::kRefused);
  const int converted = striping.Count(Verdict::kConvert);
  const int gathered = striping.Count(Verdict::kGather);
  const int unvouched =
      striping.Count(Verdict::kUnvouched) + static_cast<int>(striping.unknown.size());
  std::string line;
  if (refused > 0) {
    line = "not exact on " + grid + ": " + Counted(refused, "operator") + " refused";
  } else if (converted > 0) {
    line = "exact on " + grid +
           " through ucudnn.spatial.convert alone: as it is, the cut would change " +
           Counted(converted, "operator");
  } else {
    line = "exact on " + grid;
  }
  if (gathered > 0)
    line += "; " + Counted(gathered, "operator") + " behind a gather of all positions";
  if (unvouched > 0) line += "; nobody vouches for " + Counted(unvouched, "operator");
  std::printf("%s\n", line.c_str());
}

// Prints the next size of images with which no operator is refused, and the next value of
// --multiple with which none is refused at the present size.
void PrintNext(const Striping& striping, const NextExact& next) {
  if (next.size) {
    std::printf("the next size at which nothing is refused: %s%s",
                SizeText(next.size->extents, striping.input.spatial_rank).c_str(),
                next.size->as_it_is ? "" : ", through ucudnn.spatial.convert");
    if (!next.size->other_weights.empty()) {
      std::printf("; %s then needs other weights", Join(next.size->other_weights, ", ").c_str());
    }
    std::printf("\n");
  } else {
    std::printf("no larger size was found at which nothing is refused\n");
  }
  if (next.multiple) {
    std::printf(
        "at this size nothing is refused in stripes of multiples of %d rows, as "
        "shard(..., multiple=%d) makes them: --multiple %d\n",
        *next.multiple, *next.multiple, *next.multiple);
  }
}

// Prints a line if there are maps with one row on every rank. A call of cuDNN does not show whether
// the ranks' rows of such a map are stripes of it or copies, so the user must say which.
void PrintOnes(const Striping& striping) {
  std::string split, replicated;
  for (const StripedOperator& made : striping.operators) {
    if (made.judgement.verdict == Verdict::kRefused) continue;
    if (made.judgement.ones == OnesAre::kSplit && split.empty()) split = made.name;
    if (made.judgement.ones == OnesAre::kReplicated && replicated.empty()) replicated = made.name;
  }
  if (!split.empty() && !replicated.empty()) {
    std::printf(
        "maps of one row are stripes at %s and copies at %s: UCUDNN_SPATIAL_ONE says one "
        "of them, so calls of cuDNN are refused at the other\n",
        split.c_str(), replicated.c_str());
  } else if (!split.empty() || !replicated.empty()) {
    std::printf("as calls of cuDNN, %s needs UCUDNN_SPATIAL_ONE=%s\n",
                (split.empty() ? replicated : split).c_str(),
                split.empty() ? "replicated" : "split");
  }
}

void PrintTraffic(const char* what, const StripeTraffic& traffic) {
  std::printf("%-14s %s sent and %s received by the rank with most, %s by all ranks\n", what,
              FormatByteSize(static_cast<size_t>(traffic.most_sent)).c_str(),
              FormatByteSize(static_cast<size_t>(traffic.most_received)).c_str(),
              FormatByteSize(static_cast<size_t>(traffic.all)).c_str());
}

}  // namespace

void PrintStriping(const Striping& striping, const NextExact& next) {
  std::printf("%s, batch %d, images of %s, on %s (%d ranks); bytes are of fp32\n",
              striping.network.c_str(), striping.batch,
              SizeText(striping.input.extents, striping.input.spatial_rank).c_str(),
              striping.grid.Text().c_str(), striping.grid.Ranks());
  PrintOperators(striping);
  PrintReasons(striping);
  PrintConclusion(striping);
  if (striping.Count(Verdict::kRefused) > 0) PrintNext(striping, next);
  PrintOnes(striping);
  if (striping.Count(Verdict::kRefused) > 0)
    std::printf("without what is refused, and as if its results lay in equal stripes:\n");
  PrintTraffic("forward pass:", striping.Traffic(true));
  PrintTraffic("training step:", striping.Traffic(false));
  const double share = static_cast<double>(striping.rank_activation_bytes) /
                       static_cast<double>(striping.device_activation_bytes);
  std::printf(
      "activations:   %s on one device, %s on the rank with most (%.3g); weights %s on each; "
      "at most %s received at a time\n",
      FormatByteSize(static_cast<size_t>(striping.device_activation_bytes)).c_str(),
      FormatByteSize(static_cast<size_t>(striping.rank_activation_bytes)).c_str(), share,
      FormatByteSize(static_cast<size_t>(striping.parameter_bytes)).c_str(),
      FormatByteSize(static_cast<size_t>(striping.largest_exchange_bytes)).c_str());
}

}  // namespace ucudnn::command
