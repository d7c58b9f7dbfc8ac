#include "spatial/agreement.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "base/text.h"
#include "spatial/call_record.h"

namespace ucudnn::spatial {
namespace {

constexpr std::array<char, kMaxSpatial> kLetters = {'d', 'h', 'w'};
constexpr std::string_view kClaimFormat = "ucudnn claim 2";

// Appends a text field: its length, a colon, and its bytes.
void Append(std::string& text, std::string_view field) {
  text += std::to_string(field.size()) + ':';
  text += field;
}

bool Take(std::string_view& text, std::string& field) {
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.empty() || text.front() != ':' || text.size() - 1 < length) return false;
  field = text.substr(1, length);
  text.remove_prefix(1 + length);
  return true;
}

template <typename Number>
bool TakeNumber(std::string_view& text, Number& number) {
  std::string field;
  return Take(text, field) && ReadNumber(field, number);
}

// Returns the name, within the job, of the group's rank `rank`. `first` is the number, within the
// job, of the group's rank 0.
std::string RankName(size_t rank, int first) {
  return "rank " + std::to_string(static_cast<size_t>(first) + rank);
}

// Returns "rank 0 has A, rank 2 has B" for the first rank whose `member` differs from the `member`
// of the group's rank 0; empty if no rank differs.
std::string Difference(std::span<const Claim> claims, std::string Claim::*member, int first) {
  for (size_t rank = 1; rank < claims.size(); ++rank) {
    if (claims[rank].*member == claims[0].*member) continue;
    return RankName(0, first) + " has " + claims[0].*member + ", " + RankName(rank, first) +
           " has " + claims[rank].*member;
  }
  return "";
}

std::string WindowText(const OwnWindow& window) {
  return ExtentsText(window.extents) + " with stride " + ExtentsText(window.stride);
}

}  // namespace

static_assert(std::has_unique_object_representations_v<OwnWindow>);

std::string EncodeClaim(const Claim& claim) {
  std::string text;
  Append(text, kClaimFormat);
  Append(text, claim.options);
  Append(text, claim.kernel);
  for (const Spatial* const numbers :
       {&claim.extents, &claim.window.extents, &claim.window.stride}) {
    for (const int32_t number : *numbers) Append(text, std::to_string(number));
  }
  Append(text, std::to_string(static_cast<int32_t>(claim.window.layout)));
  Append(text, std::to_string(claim.sequence));
  Append(text, std::to_string(claim.input_hash));
  std::string prepared;
  for (const uint64_t hash : claim.prepared) Append(prepared, std::to_string(hash));
  Append(text, prepared);
  Append(text, claim.not_ready);
  return text;
}

Result<Claim> DecodeClaim(std::string_view text) {
  Claim claim;
  std::string format;
  bool complete = Take(text, format) && format == kClaimFormat && Take(text, claim.options) &&
                  Take(text, claim.kernel);
  for (Spatial* const numbers : {&claim.extents, &claim.window.extents, &claim.window.stride}) {
    for (int32_t& number : *numbers) complete = complete && TakeNumber(text, number);
  }
  int32_t layout = 0;
  complete = complete && TakeNumber(text, layout) && (layout == 0 || layout == 1);
  claim.window.layout = static_cast<Layout>(layout);
  std::string prepared;
  complete = complete && TakeNumber(text, claim.sequence) && TakeNumber(text, claim.input_hash) &&
             Take(text, prepared) && Take(text, claim.not_ready) && text.empty();
  std::string_view hashes = prepared;
  while (complete && !hashes.empty()) {
    complete = TakeNumber(hashes, claim.prepared.emplace_back());
  }
  if (!complete) return Status::Error("its claim cannot be read; is it another release?");
  return claim;
}

std::string NameOf(const CallProperties& form) {
  switch (form.work) {
    case SplitWork::kConvolution:
      break;
    case SplitWork::kBiasGradient:
      return "gradient of a bias: ";
    case SplitWork::kRows:
      return "rows of other ranks: ";
    case SplitWork::kNorm:
      return "batch normalisation: ";
    case SplitWork::kPooling:
      return std::string(cudnn::PoolingName(form.pooling)) +
             (form.pooling.nan == CUDNN_PROPAGATE_NAN ? " that propagates NaN: " : ": ");
  }
  return "";
}

std::string KernelText(const ConvolutionProblem& problem, const CallProperties& form,
                       const SpatialGrid& grid) {
  ConvolutionProblem common = problem;
  // Omits members that depend on the rank's own extents. Describe omits the strides of tensors,
  // which follow from the extents or concern only this rank.
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (grid.Parts()[axis] == 1) continue;
    common.x[axis] = 0;
    const bool is_own = form.work == SplitWork::kPooling && !form.is_replicated;
    if (is_own) common.w[axis] = common.stride[axis] = 0;
  }
  if (form.work == SplitWork::kPooling) common.layout = Layout::kNchw;
  std::string text = form.is_replicated ? "replicated " : "";
  text += NameOf(form);
  text += Describe(common) + " sums in " + DataTypeName(problem.compute);
  if (problem.mode == ConvolutionMode::kConvolution) text += " flipped";
  if (form.is_fused) text += " with bias and activation";
  if (form.hides_nan) text += " that may hide NaN";
  if (form.is_plan) text += " in the graph API";
  return text;
}

uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

uint64_t ExtentsHash(std::span<const Spatial> extents, std::span<const OwnWindow> windows) {
  std::string bytes(reinterpret_cast<const char*>(extents.data()), extents.size_bytes());
  bytes.append(reinterpret_cast<const char*>(windows.data()), windows.size_bytes());
  return HashOf(bytes);
}

Result<Agreed> Agree(std::span<const Claim> claims, int first) {
  if (std::string other = Difference(claims, &Claim::options, first); !other.empty()) {
    return Status::Error("the ranks' options differ: " + other);
  }
  if (std::string other = Difference(claims, &Claim::kernel, first); !other.empty()) {
    return Status::Error("the ranks do not call the same kernel: " + other + ". " + kPrivateCalls);
  }
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    if (claims[rank].sequence != claims[0].sequence) {
      return Status::Error("the ranks' calls are not the same ones: for " + RankName(0, first) +
                           " it is call " + std::to_string(claims[0].sequence) + ", for " +
                           RankName(rank, first) + " call " +
                           std::to_string(claims[rank].sequence));
    }
  }
  Agreed agreed;
  agreed.equal_inputs = claims.size() > 1;
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    agreed.extents.push_back(claims[rank].extents);
    agreed.windows.push_back(claims[rank].window);
    const uint64_t hash = claims[rank].input_hash;
    agreed.equal_inputs = agreed.equal_inputs && hash != 0 && hash == claims[0].input_hash;
    if (!claims[rank].not_ready.empty() && agreed.refusal.empty()) {
      agreed.refusal = RankName(rank, first) + " cannot run its part: " + claims[rank].not_ready;
    }
  }
  const uint64_t hash = ExtentsHash(agreed.extents, agreed.windows);
  agreed.is_prepared = std::all_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    return std::find(claim.prepared.begin(), claim.prepared.end(), hash) != claim.prepared.end();
  });
  return agreed;
}

Result<Agreed> AgreeOn(std::span<const std::string> gathered, int first) {
  std::vector<Claim> claims;
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    Result<Claim> claim = DecodeClaim(gathered[rank]);
    if (!claim.ok()) return Status::Error(RankName(rank, first) + ": " + claim.message());
    claims.push_back(*std::move(claim));
  }
  return Agree(claims, first);
}

std::string EncodeNumbers(std::span<const uint64_t> numbers, const Status& own) {
  std::string text;
  Append(text, own.ok() ? "" : own.message());
  for (const uint64_t number : numbers) Append(text, std::to_string(number));
  return text;
}

Result<std::vector<std::vector<uint64_t>>> DecodeNumbers(std::span<const std::string> gathered,
                                                         size_t count, int first) {
  std::vector<std::vector<uint64_t>> all;
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    std::string_view text = gathered[rank];
    std::string error;
    std::vector<uint64_t> numbers(count);
    bool complete = Take(text, error);
    for (uint64_t& number : numbers) complete = complete && TakeNumber(text, number);
    if (!complete || !text.empty()) {
      return Status::Error(RankName(rank, first) + ": its answer cannot be read");
    }
    if (!error.empty()) return Status::Error(RankName(rank, first) + ": " + error);
    all.push_back(std::move(numbers));
  }
  return all;
}

bool IsOneOnAll(const SpatialGrid& grid, std::span<const Spatial> extents, size_t axis) {
  return grid.Parts()[axis] > 1 &&
         std::all_of(extents.begin(), extents.end(),
                     [&](const Spatial& rank) { return rank[axis] == 1; });
}

Result<std::array<bool, kMaxSpatial>> CopiedAxes(const ConvolutionProblem& problem,
                                                 const SpatialGrid& grid,
                                                 std::span<const Spatial> extents,
                                                 std::optional<SpatialOnes> declared,
                                                 SplitWork work) {
  std::array<bool, kMaxSpatial> copied = {};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (!IsOneOnAll(grid, extents, axis)) continue;
    if (declared) {
      copied[axis] = *declared == SpatialOnes::kReplicated;
      continue;
    }
    const bool alike = work != SplitWork::kNorm && problem.w[axis] == 1 &&
                       problem.stride[axis] == 1 && problem.operation != Operation::kBackwardFilter;
    if (alike) continue;
    return Status::Error(std::string(1, kLetters[axis]) +
                         ": the extent is 1 on every rank, which may be stripes of one row or "
                         "copies; UCUDNN_SPATIAL_ONE=split or replicated says which");
  }
  return copied;
}

Result<PooledAxes> AxesOfPooling(const ConvolutionProblem& problem, const SpatialGrid& grid,
                                 std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows,
                                 std::optional<SpatialOnes> declared) {
  PooledAxes axes;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    // Skips axes that the problem does not have. For a 2-D pooling on a grid that cuts d,
    // Stripes::Make fails later.
    if (grid.Parts()[axis] == 1 || axis + static_cast<size_t>(problem.spatial_rank) < kMaxSpatial) {
      continue;
    }
    const std::string letter(1, kLetters[axis]);
    const bool is_one = IsOneOnAll(grid, extents, axis);
    bool covers = problem.pad[axis] == 0;
    for (size_t rank = 0; rank < extents.size(); ++rank) {
      covers = covers && windows[rank].extents[axis] == extents[rank][axis];
    }
    if (covers && !declared) {
      return Status::Error(letter +
                           ": the window covers the stripe of every rank, which may be pooling of "
                           "the whole image or of one row for each rank; UCUDNN_SPATIAL_ONE="
                           "replicated (the results are copies) or split says which");
    }
    if (covers && *declared == SpatialOnes::kReplicated) {
      if (is_one) {
        return Status::Error(letter +
                             ": a window of 1 over one row on every rank, which may be pooling of "
                             "the whole image or of copies; stripes of two rows tell");
      }
      for (size_t other = 0; other < kMaxSpatial; ++other) {
        if (grid.Parts()[other] > 1 || problem.w[other] == problem.x[other]) continue;
        return Status::Error(
            letter + ": the window covers the stripe of every rank, but not the image along " +
            std::string(1, kLetters[other]) +
            ": whether it pools strips of the whole image or one row of each rank "
            "nothing tells");
      }
      axes.pooled[axis] = true;
      continue;
    }
    if (is_one && !declared) {
      return Status::Error(letter +
                           ": the extent is 1 on every rank, which may be stripes of one row or "
                           "copies; UCUDNN_SPATIAL_ONE=split or replicated says which");
    }
    axes.copied[axis] = is_one && *declared == SpatialOnes::kReplicated;
    for (size_t rank = 1; rank < windows.size(); ++rank) {
      if (windows[rank].extents[axis] == windows[0].extents[axis] &&
          windows[rank].stride[axis] == windows[0].stride[axis]) {
        continue;
      }
      return Status::Error(letter + ": ranks pool with unequal windows, " + WindowText(windows[0]) +
                           " and " + WindowText(windows[rank]) +
                           ", which do not cover the stripe of every rank");
    }
  }
  return axes;
}

}  // namespace ucudnn::spatial
