#include "command/spatial_page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/report_page.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Cell;
using planner::Element;
using planner::Paragraph;
using planner::Section;
using planner::Table;

Cell CountCell(int64_t count) { return {std::to_string(count), static_cast<double>(count)}; }

Cell MovedCell(size_t bytes) { return {FormatByteSize(bytes), static_cast<double>(bytes)}; }

Cell LengthCell(double ms) { return {Milliseconds(ms), ms}; }

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

// Of the step that was timed: what each rank's stream did and waited for.
struct StepSums {
  double length_ms = 0;
  double exchange_ms = 0, exposed_ms = 0;  // sums over ranks among them
};

std::optional<StepSums> StepSumsOf(const RankEntry& rank) {
  if (rank.step.empty()) return std::nullopt;
  StepSums sums;
  double begin = 0, end = 0;
  bool any = false;
  for (const StepCallEntry& call : rank.step) {
    for (const StepSpanEntry& span : call.spans) {
      begin = any ? std::min(begin, span.begin_ms) : span.begin_ms;
      end = std::max(end, span.begin_ms + span.length_ms);
      any = true;
      const bool moves = span.span == StepSpan::kExchange || span.span == StepSpan::kSum;
      const bool waits = span.span == StepSpan::kAwaitExchange || span.span == StepSpan::kAwaitSum;
      if (moves) sums.exchange_ms += span.length_ms;
      if (waits) sums.exposed_ms += span.length_ms;
    }
  }
  sums.length_ms = end - begin;
  return sums;
}

// The ranks of the grid that there is no report of, in words.
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

Element RankTable(const SplitJob& job) {
  Table table(
      "rank-table",
      "Each rank: bytes of rows in all calls, without sums of gradients; times of one step.",
      {{"rank"},
       {"part"},
       {"calls", true},
       {"sent", true},
       {"received", true},
       {"minimum", true},
       {"device memory", true},
       {"step", true},
       {"exchange", true},
       {"exposed", true},
       {"hidden", true},
       {"report"}},
      true);
  for (const RankEntry& rank : job.ranks) {
    size_t sent = 0, received = 0, least = 0;
    for (const SplitKernelEntry& kernel : rank.kernels) {
      sent += kernel.sent_bytes;
      received += kernel.received_bytes;
      least += kernel.least_bytes();
    }
    std::vector<Cell> row = {{"rank " + std::to_string(rank.rank)},
                             CellText(job.grid, rank.rank),
                             CountCell(rank.calls),
                             MovedCell(sent),
                             MovedCell(received),
                             MovedCell(least),
                             MovedCell(rank.owned_bytes)};
    if (const auto sums = StepSumsOf(rank)) {
      row.push_back(LengthCell(sums->length_ms));
      row.push_back(LengthCell(sums->exchange_ms));
      row.push_back(LengthCell(sums->exposed_ms));
      row.push_back(LengthCell(std::max(sums->exchange_ms - sums->exposed_ms, 0.0)));
    } else {
      row.insert(row.end(), 4, Cell("not timed"));
    }
    row.emplace_back(rank.source);
    table.AddRow(row);
  }
  return table.Take();
}

// What ranks say of themselves, each text once.
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
  Element list("dl");
  list.Add(Element("dt", "grid"))
      .Add(Element("dd", job.grid.Text() + ": " + std::to_string(job.grid.Ranks()) + " ranks" +
                             (job.grid.n > 1 ? " in " + std::to_string(job.grid.n) + " groups"
                                             : std::string())));
  const auto add = [&](const char* name, std::string RankEntry::*of) {
    const std::string text = DistinctText(job, of);
    if (!text.empty()) list.Add(Element("dt", name)).Add(Element("dd", text));
  };
  add("transport", &RankEntry::transport);
  add("library", &RankEntry::library);
  section.Add(std::move(list));
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

// The rank whose calls wait longest for exchanges; none where no rank was timed.
const SplitTimes* SlowestOf(const SplitJob& job, const JobKernel& kernel) {
  const SplitTimes* slowest = nullptr;
  for (const JobKernel::OfRank& at : kernel.ranks) {
    const auto& times = EntryOf(job, at).times;
    if (!times) continue;
    if (slowest == nullptr || times->exposed_ms > slowest->exposed_ms) slowest = &*times;
  }
  return slowest;
}

std::string ExcessText(size_t moved, size_t least) {
  if (least == 0) return moved == 0 ? "" : "nothing is needed";
  char text[32];
  std::snprintf(text, sizeof text, "%.3fx",
                static_cast<double>(moved) / static_cast<double>(least));
  return text;
}

std::vector<Cell> SplitKernelRow(const SplitJob& job, const JobKernel& kernel, size_t number) {
  const SplitKernelEntry& first = EntryOf(job, kernel.ranks.front());
  size_t sent = 0, received = 0, least = 0;
  for (const JobKernel::OfRank& at : kernel.ranks) {
    const SplitKernelEntry& one = EntryOf(job, at);
    sent += one.sent_bytes;
    received += one.received_bytes;
    least += one.least_bytes();
  }
  std::string calls = std::to_string(first.calls);
  if (first.paired_calls > 0)
    calls += ", " + std::to_string(first.paired_calls) + " with rows of the call before";
  std::vector<Cell> row = {
      std::to_string(number) + ": " + SplitKernelLabel(first),
      first.verdict,
      {calls, static_cast<double>(first.calls)},
      MovedCell(sent),
      MovedCell(received),
      MovedCell(least),
      {ExcessText(sent + received, least),
       least == 0 ? 0 : static_cast<double>(sent + received) / static_cast<double>(least)},
      CountCell(first.slices)};
  if (const SplitTimes* const times = SlowestOf(job, kernel)) {
    row.push_back(LengthCell(times->own_ms));
    row.push_back(LengthCell(times->exchange_ms));
    row.push_back(LengthCell(times->exposed_ms));
    row.push_back(LengthCell(times->hidden_ms));
    row.push_back(LengthCell(times->sum_ms));
    row.push_back(LengthCell(times->exposed_sum_ms));
  } else {
    row.insert(row.end(), 6, Cell(first.verdict == "refused" ? "" : "not timed"));
  }
  row.emplace_back(first.reason);
  return row;
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
    Table table("split-kernel-table", "A heading sorts by its column.",
                {{"kernel"},
                 {"verdict"},
                 {"calls", true},
                 {"sent", true},
                 {"received", true},
                 {"minimum", true},
                 {"of the minimum", true},
                 {"exchanges a call", true},
                 {"own call", true},
                 {"exchange", true},
                 {"exposed", true},
                 {"hidden", true},
                 {"sum", true},
                 {"exposed sum", true},
                 {"why"}},
                true);
    for (size_t at = 0; at < kernels.size(); ++at) {
      table.AddRow(SplitKernelRow(job, kernels[at], at + 1));
    }
    section.Add(table.Take());
  }
  if (job.refused.empty()) return section;
  Table table("refused-table", "Calls that were refused by name, on all ranks.",
              {{"what"}, {"calls", true}}, true);
  for (const RefusedEntry& one : job.refused) table.AddRow({one.what, CountCell(one.count)});
  return std::move(section.Add(table.Take()));
}

}  // namespace

std::vector<JobKernel> KernelsOf(const SplitJob& job) {
  std::vector<JobKernel> kernels;
  // What ranks have in common, and which of equal ones.
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
