#include "command/report/spatial_page.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "command/numbers.h"
#include "command/report/page.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::BytesCell;
using planner::Cell;
using planner::CountCell;
using planner::Descriptions;
using planner::Element;
using planner::Paragraph;
using planner::Section;
using planner::TableOf;
using planner::TimeCell;

const SplitKernelEntry& EntryOf(const SplitJob& job, const JobKernel::OfRank& at) {
  return job.ranks[at.rank].kernels[at.kernel];
}

std::string CellText(const SpatialGrid& grid, int rank) {
  const GridCell cell = grid.CellOf(rank);
  std::string text;
  const auto add = [&](const char* axis, int part, int parts) {
    if (parts == 1) return;
    text += (text.empty() ? "" : ", ") + std::string(axis) + " " + std::to_string(part + 1) + "/" +
            std::to_string(parts);
  };
  add("group", cell.n, grid.n);
  add("d", cell.d, grid.d);
  add("h", cell.h, grid.h);
  add("w", cell.w, grid.w);
  return text;
}

// Returns a text that names the grid's ranks that have no report; empty if all ranks have one.
std::string MissingText(const SplitJob& job) {
  std::set<int> there;
  for (const RankEntry& rank : job.ranks) there.insert(rank.rank);
  std::vector<size_t> missing;
  for (int rank = 0; rank < job.grid.Ranks(); ++rank) {
    if (!there.contains(rank)) missing.push_back(static_cast<size_t>(rank));
  }
  if (missing.empty()) return {};
  return "There is no report here of " + std::string(missing.size() == 1 ? "rank " : "ranks ") +
         NumbersText(missing) + ": give the reports of all ranks to one command.";
}

// Bytes of exchanged rows in all calls: sent, received, and the least that could be moved.
struct Moved {
  size_t sent = 0, received = 0, least = 0;

  void Add(const SplitKernelEntry& kernel) {
    sent += kernel.sent_bytes;
    received += kernel.received_bytes;
    least += kernel.least_bytes();
  }
  Cell Sent() const { return BytesCell(static_cast<int64_t>(sent)); }
  Cell Received() const { return BytesCell(static_cast<int64_t>(received)); }
  Cell Least() const { return BytesCell(static_cast<int64_t>(least)); }
};

Element RankTable(const SplitJob& job) {
  struct Row {
    const RankEntry& rank;
    Moved moved;
    StepTimes step;
  };
  std::vector<Row> rows;
  for (const RankEntry& rank : job.ranks) {
    Row& row = rows.emplace_back(Row{rank, {}, StepTimesOf(rank)});
    for (const SplitKernelEntry& kernel : rank.kernels) row.moved.Add(kernel);
  }
  const auto timed = [](auto ms_of) {
    return [ms_of](const Row& row) {
      return row.rank.step.calls.empty() ? Cell("not timed") : TimeCell(ms_of(row.step));
    };
  };
  const auto moves = [](const StepTimes& step) { return step.exchange_ms + step.sum_ms; };
  const auto waits = [](const StepTimes& step) {
    return step.exposed_exchange_ms + step.exposed_sum_ms;
  };
  return TableOf<Row>(
      "rank-table",
      "Each rank: bytes of rows in all calls, without sums of gradients; times of one step.",
      {{"rank", false, [](const Row& row) { return "rank " + std::to_string(row.rank.rank); }},
       {"part", false, [&](const Row& row) { return CellText(job.grid, row.rank.rank); }},
       {"calls", true, [](const Row& row) { return CountCell(row.rank.calls); }},
       {"sent", true, [](const Row& row) { return row.moved.Sent(); }},
       {"received", true, [](const Row& row) { return row.moved.Received(); }},
       {"minimum", true, [](const Row& row) { return row.moved.Least(); }},
       {"device memory", true,
        [](const Row& row) { return BytesCell(static_cast<int64_t>(row.rank.owned_bytes)); }},
       {"step", true, timed([](const StepTimes& step) { return step.step_ms; })},
       {"exchange", true, timed(moves)},
       {"exposed", true, timed(waits)},
       {"hidden", true,
        timed([=](const StepTimes& step) { return std::max(moves(step) - waits(step), 0.0); })},
       {"report", false, [](const Row& row) { return row.rank.source; }}},
      rows);
}

// Returns the distinct texts that the ranks have in the member `of`.
std::string DistinctText(const SplitJob& job, std::string RankEntry::*of) {
  std::vector<std::string> texts;
  for (const RankEntry& rank : job.ranks) {
    const std::string& text = rank.*of;
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(text);
    }
  }
  return Join(texts, "; ");
}

Element RanksSection(const SplitJob& job) {
  Element section = Section("spatial", "Images split over ranks");
  Descriptions list;
  list.Add("grid", job.grid.Text() + ": " + std::to_string(job.grid.Ranks()) + " ranks" +
                       (job.grid.n > 1 ? " in " + std::to_string(job.grid.n) + " groups" : ""));
  list.Add("transport", DistinctText(job, &RankEntry::transport));
  list.Add("library", DistinctText(job, &RankEntry::library));
  section.Add(list.Take());
  if (const std::string missing = MissingText(job); !missing.empty()) {
    section.Add(Paragraph(missing));
  }
  section.Add(RankTable(job));
  return std::move(section.Add(Paragraph(
      "Minimum is what it takes to send each position that a rank reads of another's once, as the "
      "geometry says, sent and received together. An exchange also lasts while a rank waits for "
      "one that comes later. Exposed is what the calls' stream waits for exchanges and sums, "
      "hidden the rest of them.")));
}

// Returns the times of the kernel on the rank where its calls wait longest for exchanges. Returns
// null if no rank was timed.
const SplitTimes* SlowestOf(const SplitJob& job, const JobKernel& kernel) {
  const SplitTimes* slowest = nullptr;
  for (const JobKernel::OfRank& at : kernel.ranks) {
    const auto& times = EntryOf(job, at).times;
    if (!times) continue;
    if (slowest == nullptr || times->exposed_ms > slowest->exposed_ms) slowest = &*times;
  }
  return slowest;
}

// Shows the moved bytes divided by the least possible number of bytes.
Cell ExcessCell(const Moved& moved) {
  const size_t all = moved.sent + moved.received;
  if (moved.least == 0) return {all == 0 ? "" : "nothing is needed", 0};
  const double excess = static_cast<double>(all) / static_cast<double>(moved.least);
  return {NumberText("%.3fx", excess), excess};
}

std::string CallsText(const SplitKernelEntry& kernel) {
  const std::string calls = std::to_string(kernel.calls);
  if (kernel.paired_calls == 0) return calls;
  return calls + ", " + std::to_string(kernel.paired_calls) + " with rows of the call before";
}

Element SplitKernelTable(const SplitJob& job, const std::vector<JobKernel>& kernels) {
  struct Row {
    size_t number = 0;
    const SplitKernelEntry& first;
    Moved moved;
    const SplitTimes* times;
  };
  std::vector<Row> rows;
  for (const JobKernel& kernel : kernels) {
    Row& row = rows.emplace_back(
        Row{rows.size() + 1, EntryOf(job, kernel.ranks.front()), {}, SlowestOf(job, kernel)});
    for (const JobKernel::OfRank& at : kernel.ranks) row.moved.Add(EntryOf(job, at));
  }
  const auto timed = [](double SplitTimes::*ms) {
    return [ms](const Row& row) {
      if (row.times != nullptr) return TimeCell(row.times->*ms);
      return Cell(row.first.verdict == "refused" ? "" : "not timed");
    };
  };
  return TableOf<Row>(
      "split-kernel-table", "A heading sorts by its column.",
      {{"kernel", false,
        [](const Row& row) {
          return std::to_string(row.number) + ": " + SplitKernelLabel(row.first);
        }},
       {"verdict", false, [](const Row& row) { return row.first.verdict; }},
       {"calls", true,
        [](const Row& row) {
          return Cell(CallsText(row.first), static_cast<double>(row.first.calls));
        }},
       {"sent", true, [](const Row& row) { return row.moved.Sent(); }},
       {"received", true, [](const Row& row) { return row.moved.Received(); }},
       {"minimum", true, [](const Row& row) { return row.moved.Least(); }},
       {"of the minimum", true, [](const Row& row) { return ExcessCell(row.moved); }},
       {"exchanges a call", true, [](const Row& row) { return CountCell(row.first.slices); }},
       {"own call", true, timed(&SplitTimes::own_ms)},
       {"exchange", true, timed(&SplitTimes::exchange_ms)},
       {"exposed", true, timed(&SplitTimes::exposed_ms)},
       {"hidden", true, timed(&SplitTimes::hidden_ms)},
       {"sum", true, timed(&SplitTimes::sum_ms)},
       {"exposed sum", true, timed(&SplitTimes::exposed_sum_ms)},
       {"why", false, [](const Row& row) { return row.first.reason; }}},
      rows);
}

Element SplitKernelsSection(const SplitJob& job) {
  Element section = Section("split-kernels", "Split kernels");
  const std::vector<JobKernel> kernels = KernelsOf(job);
  if (kernels.empty()) {
    section.Add(Paragraph("There are none."));
  } else {
    section.Add(Paragraph(
        "Shapes are those of one rank's part. Bytes are the sum of the ranks shown, in all calls; "
        "times those of one call, of the rank that waits longest for its exchange."));
    section.Add(SplitKernelTable(job, kernels));
  }
  if (job.refused.empty()) return section;
  return std::move(section.Add(TableOf<RefusedEntry>(
      "refused-table", "Calls that were refused by name, on all ranks.",
      {{"what", false, [](const RefusedEntry& one) { return one.what; }},
       {"calls", true, [](const RefusedEntry& one) { return CountCell(one.count); }}},
      job.refused)));
}

}  // namespace

std::vector<JobKernel> KernelsOf(const SplitJob& job) {
  std::vector<JobKernel> kernels;
  // The key of a kernel is equal on all ranks. It is the text `common`, and the kernel's number
  // among those of the rank's kernels that have this text.
  std::map<std::pair<std::string, size_t>, size_t> numbers;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    std::map<std::string, size_t> seen;
    const std::vector<SplitKernelEntry>& own = job.ranks[rank].kernels;
    for (size_t at = 0; at < own.size(); ++at) {
      const std::pair key(own[at].common, seen[own[at].common]++);
      const auto [entry, added] = numbers.try_emplace(key, kernels.size());
      if (added) kernels.emplace_back();
      kernels[entry->second].ranks.push_back({rank, at});
    }
  }
  return kernels;
}

std::string SplitKernelLabel(const SplitKernelEntry& kernel) {
  if (!kernel.problem) return kernel.common;
  const std::string shape = ShapeText(*kernel.problem) + " " + kernel.op;
  return kernel.kind == "convolution" ? shape : kernel.kind + " " + shape;
}

std::string NumbersText(const std::vector<size_t>& numbers) {
  std::vector<std::string> runs;
  for (size_t at = 0; at < numbers.size();) {
    size_t end = at + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    std::string run = std::to_string(numbers[at]);
    if (end - at == 2) run += ", " + std::to_string(numbers[end - 1]);
    if (end - at > 2) run += " to " + std::to_string(numbers[end - 1]);
    runs.push_back(std::move(run));
    at = end;
  }
  return Join(runs, ", ");
}

std::vector<Element> SpatialSections(const SplitJob& job) {
  std::vector<Element> sections;
  sections.push_back(RanksSection(job));
  sections.push_back(SplitKernelsSection(job));
  sections.push_back(StepSection(job));
  sections.push_back(HalosSection(job));
  return sections;
}

}  // namespace ucudnn::command
