// Reads what a line of a decision table says about the world, word by word.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "decision_lines.h"

namespace ucudnn::planning {
namespace {

[[noreturn]] void Nonsense(std::string_view word, const std::string& why) {
  throw std::invalid_argument("'" + std::string(word) + "' " + why);
}

// Reads the parts of one text from left to right.
class Reader {
 public:
  Reader(std::string_view text, bool graph) : whole_(text), text_(text), graph_(graph) {}

  bool Skip(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }
  void Expect(std::string_view prefix) {
    if (!Skip(prefix)) Nonsense(whole_, "lacks a '" + std::string(prefix) + "'");
  }
  void ExpectEnd() {
    if (!text_.empty()) Nonsense(whole_, "ends in '" + std::string(text_) + "'");
  }
  std::string_view Rest() { return std::exchange(text_, {}); }

  double Number() {
    const std::string digits(text_.substr(0, text_.find_first_not_of("0123456789.")));
    if (digits.empty()) Nonsense(whole_, "lacks a number");
    text_.remove_prefix(digits.size());
    return std::strtod(digits.c_str(), nullptr);
  }
  int Int() { return static_cast<int>(Number()); }
  size_t Bytes() { return static_cast<size_t>(Number()); }

  // Reads "3", "3f" or "3w". In a call of the legacy API, "g3" is engine 3 of the graph API.
  Candidate Engine() {
    Candidate engine;
    engine.native = graph_ || !Skip("g");
    const bool of_graph = graph_ || !engine.native;
    engine.micro.engine = (of_graph ? "graph:" : "legacy:") + std::to_string(Int());
    if (Skip("f")) engine.numeric = NumericClass::kFft;
    if (Skip("w")) engine.numeric = NumericClass::kWinograd;
    return engine;
  }
  PieceName Piece() {
    const EngineId engine = Engine().micro.engine;
    if (Skip("#")) return {engine, -Int()};
    Expect("@");
    return {engine, Int()};
  }
  // Reads the tiles that an image is cut into: "ENGINE#TILES:MS/BYTES" or
  // "ENGINE#TILES:MS/BYTES+ENGINE:MS/BYTES". In the second form two of the tiles are edges, and the
  // part behind the + is the engine, time and workspace of an edge.
  Tiling Tiles(int n) {
    Tiling tiling;
    Candidate tile = Engine();
    Expect("#");
    const int of_image = Int();
    tiling.grid = {.n = n, .spatial = {1, of_image, 1}};
    TileRow(tile);
    tiling.kinds.push_back({n * of_image, {tile}});
    if (Skip("+")) {
      Candidate edge = Engine();
      TileRow(edge);
      tiling.kinds.push_back({2 * n, {edge}});
      tiling.kinds[0].count -= 2 * n;
    }
    return tiling;
  }
  // Reads "ENGINE@IMAGES:MS/BYTES". A trailing d marks a deterministic engine. MS is "?" if nobody
  // measured the time.
  Candidate Row() {
    Candidate row = Engine();
    Expect("@");
    row.micro.micro_batch = Int();
    Expect(":");
    row.micro.time_ms = Skip("?") ? kUnknownTime : Number();
    Expect("/");
    row.micro.workspace_bytes = Bytes();
    row.micro.deterministic = Skip("d");
    return row;
  }
  // Reads "ROWxCOUNT+ROW": one or more rows. COUNT is a row's number of pieces, and 1 if it is
  // absent.
  Configuration Plan(std::vector<Candidate>* rows = nullptr) {
    Configuration configuration;
    do {
      const Candidate row = Row();
      configuration.runs.push_back({row.micro, Skip("x") ? Int() : 1});
      if (rows != nullptr) rows->push_back(row);
    } while (Skip("+"));
    return configuration;
  }
  // Reads a plan as Plan does, or the tiles of an image, for a mini-batch of `n`.
  Configuration PlanOf(int n) {
    if (text_.find('#') == std::string_view::npos) return Plan();
    const Tiling tiling = Tiles(n);
    Configuration configuration{{}, tiling.grid};
    for (const Tiling::Kind& kind : tiling.kinds) {
      configuration.runs.push_back({kind.candidates[0].micro, kind.count});
    }
    return configuration;
  }
  // Reads "BYTES/ENGINE", with a * if the engine may also run in place of pieces that could run.
  // Without an engine only pieces keep the promise.
  KeptPromise Kept() {
    KeptPromise kept;
    kept.workspace_bytes = Bytes();
    Expect("/");
    if (text_.empty()) return kept;
    kept.undivided = Engine().micro.engine;
    kept.any_engine = Skip("*");
    return kept;
  }

 private:
  // Reads ":MS/BYTES" of one tile. A trailing d marks a deterministic engine.
  void TileRow(Candidate& tile) {
    Expect(":");
    tile.micro.micro_batch = 1;
    tile.micro.tile.spatial[1] = 1;
    tile.micro.time_ms = Number();
    Expect("/");
    tile.micro.workspace_bytes = Bytes();
    tile.micro.deterministic = Skip("d");
  }

  const std::string_view whole_;
  std::string_view text_;
  const bool graph_;
};

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

constexpr std::pair<std::string_view, CallKind> kKinds[] = {
    {"plain", CallKind::kPlain},           {"adding", CallKind::kAdding},
    {"scaled", CallKind::kScaled},         {"activation", CallKind::kActivation},
    {"misaligned", CallKind::kMisaligned}, {"identity", CallKind::kIdentity}};

// Reads a whole line into a World.
class WorldReader {
 public:
  World Read(std::string_view line) {
    std::vector<std::string_view> parts;
    for (size_t bar; (bar = line.find('|')) != std::string_view::npos;
         line.remove_prefix(bar + 1)) {
      parts.push_back(line.substr(0, bar));
    }
    parts.push_back(line);
    if (parts.size() != 3) Nonsense(line, "is not KERNEL | ROWS | ELSE");
    const std::vector<std::string_view> kernel = Words(parts[0]);
    if (kernel.empty()) Nonsense(line, "has no kernel");
    Begin(kernel[0]);
    for (size_t at = 1; at < kernel.size(); ++at) Fact(kernel[at]);
    for (const std::string_view word : Words(parts[1])) {
      Reader reader(word, graph());
      if (word.find('#') != std::string_view::npos) {
        AddTiles(reader.Tiles(world_.facts.problem.n));
      } else {
        world_.rows.push_back(reader.Row());
      }
      reader.ExpectEnd();
    }
    for (const std::string_view word : Words(parts[2])) Fact(word);
    End();
    return std::move(world_);
  }

 private:
  bool graph() const { return call_ == nullptr; }

  // Adds the engines of `tiling` to the known tiling with the same grid; if there is none, adds
  // `tiling`. All rows of a grid list its kinds of tiles in the same order.
  void AddTiles(Tiling tiling) {
    for (Tiling& known : world_.tilings.measured) {
      if (known.grid != tiling.grid || known.kinds.size() != tiling.kinds.size()) continue;
      for (size_t kind = 0; kind < known.kinds.size(); ++kind) {
        known.kinds[kind].candidates.push_back(tiling.kinds[kind].candidates[0]);
      }
      return;
    }
    world_.tilings.measured.push_back(std::move(tiling));
  }

  void Begin(std::string_view kind) {
    Facts& facts = world_.facts;
    facts.problem.n = 8;
    facts.problem.x = {1, 4, 4};
    SetPackedStrides(facts.problem);
    if (kind == "plan" || kind == "first") {
      plan_ = &facts.program.emplace<PlanFacts>();
      plan_->is_heuristics_first = kind == "first";
      facts.asked = "graph:1";
      return;
    }
    call_ = &std::get<CallFacts>(facts.program);
    const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                           [&](const auto& known) { return known.first == kind; });
    if (found == std::end(kKinds)) Nonsense(kind, "is no kind of a kernel");
    call_->kind = found->second;
    facts.asked = "legacy:1";
  }

  void Fact(std::string_view word) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return Flag(word);
    Reader value(word.substr(equals + 1), graph());
    Value(word.substr(0, equals), value);
    value.ExpectEnd();
  }

  void Flag(std::string_view word) {
    Facts& facts = world_.facts;
    const std::map<std::string_view, bool*> flags = {
        {"observes", &facts.observes},
        {"deterministic", &facts.deterministic},
        {"strict", &facts.strict_limit},
        {"capturing", &facts.capturing},
        {"failed", &facts.failed},
        {"no-pieces", &world_.breaks_pieces},
        {"too-large", &world_.is_too_large},
        {"no-whole", &world_.breaks_whole},
        {"provisional", &provisional_},
        {"from-file", &from_file_},
        {"pieces-alone", &pieces_alone_},
        {"lost", &lost_},
        {"divided", &divided_},
        {"ran", &ran_},
        {"with-graph", graph() ? nullptr : &call_->graph_engines},
        {"more-outside", graph() ? nullptr : &call_->more_outside},
        {"file-later", graph() ? nullptr : &call_->confirmed_later},
        {"was-told", graph() ? nullptr : &call_->was_told},
        {"store", graph() ? &plan_->store : nullptr},
        {"file-waits", graph() ? &plan_->file_waits : nullptr},
        {"vast", graph() ? &plan_->is_vast : nullptr},
    };
    if (word == "untuned") {
      facts.tunes = false;
    } else if (word == "unsettled") {
      world_.settled = false;
    } else if (word == "late") {
      world_.settled = false;
      world_.late = true;
    } else if (word == "tiles-unsettled" || word == "tiles-late") {
      world_.tilings.settled = false;
      world_.tilings.late = word == "tiles-late";
    } else if (word == "refuses") {
      refuses_ = true;
    } else if (word == "random" && graph()) {
      plan_->deterministic = false;
      random_ = true;
    } else if (const auto flag = flags.find(word); flag != flags.end() && flag->second != nullptr) {
      *flag->second = true;
    } else {
      Nonsense(word, "says nothing");
    }
  }

  void Value(std::string_view name, Reader& value) {
    Facts& facts = world_.facts;
    if (name == "asks") {
      const Candidate asked = value.Engine();
      facts.asked = asked.micro.engine;
      facts.numeric = asked.numeric;
    } else if (name == "n") {
      facts.problem.n = value.Int();
    } else if (name == "math") {
      facts.problem.math = static_cast<MathType>(value.Int());
    } else if (name == "step") {
      // An image has 64 bytes, so with this alignment pieces begin at multiples of the step.
      facts.problem.alignment = 64 * value.Int();
    } else if (name == "tiles") {
      facts.tiles = value.Skip("fit") ? TileUse::kToFit : TileUse::kToGain;
      if (facts.tiles == TileUse::kToGain) value.Expect("gain");
    } else if (name == "tiles-need") {
      world_.tilings.least_bytes = value.Bytes();
    } else if (name == "no-tiles") {
      world_.tilings.why = value.Rest();
    } else if (name == "need") {
      need_ = value.Bytes();
    } else if (name == "passes") {
      passes_ = value.Bytes();
    } else if (name == "limit") {
      facts.user_limit = value.Bytes();
    } else if (name == "share") {
      const size_t bytes = value.Bytes();
      value.Expect("/");
      facts.share = {bytes, value.Bytes()};
      facts.user_limit = 0;
    } else if (name == "assured") {
      facts.assured_bytes = value.Bytes();
      facts.user_limit = 0;
      brings_ = true;
    } else if (name == "wrong" || name == "uncompared" || name == "slower") {
      std::vector<PieceName>& pieces = name == "wrong"    ? world_.wrong
                                       : name == "slower" ? world_.slower
                                                          : world_.uncompared;
      do pieces.push_back(value.Piece());
      while (value.Skip(","));
    } else if (graph()) {
      PlanValue(name, value);
    } else {
      CallValue(name, value);
    }
  }

  // Reads "PLAN~WHOLE": PLAN runs, and WHOLE may replace it. Without ~WHOLE the first run of PLAN
  // is the replacement.
  Promise ReadPromise(Reader& value) {
    Promise promise;
    promise.configuration = value.PlanOf(world_.facts.problem.n);
    promise.undivided = value.Skip("~") ? value.Row().micro : promise.configuration.runs[0].micro;
    promise.baselines = {promise.undivided, promise.undivided};
    promise.reference = promise.undivided;
    return promise;
  }

  void CallValue(std::string_view name, Reader& value) {
    if (name == "told") {
      call_->told = ReadPromise(value);
    } else if (name == "room") {
      room_ = value.Bytes();
    } else if (name == "serves") {
      call_->told->alone = value.Plan();
    } else if (name == "alone") {
      Promise promise = ReadPromise(value);
      if (promise.configuration.Pieces() == 1 ||
          promise.undivided == promise.configuration.runs[0].micro) {
        promise.reference = {};
      }
      promise.undivided = {};
      promise.baselines = {};
      call_->told_alone = std::move(promise);
    } else if (name == "file") {
      ConfirmedLegacyKernel confirmed;
      confirmed.configuration = value.Plan(&confirmed.candidates);
      confirmed.limit_bytes = kNoLimit;
      for (const Candidate& piece : confirmed.candidates) {
        if (piece.micro == confirmed.configuration.Largest()) confirmed.largest = piece.numeric;
      }
      for (const char* sign = "~"; value.Skip(sign); sign = ",") {
        confirmed.candidates.push_back(value.Row());
      }
      call_->confirmed = std::move(confirmed);
    } else {
      Nonsense(name, "says nothing of a call");
    }
  }

  void PlanValue(std::string_view name, Reader& value) {
    if (name == "others") {
      do {
        MicroConfiguration other = value.Engine().micro;
        value.Expect("/");
        other.time_ms = kUnknownTime;
        other.workspace_bytes = value.Bytes();
        other.deterministic = true;
        world_.others.push_back(std::move(other));
      } while (value.Skip(","));
    } else if (name == "told" || name == "stored") {
      plan_->told = value.Kept();
      plan_->told_here = name == "told";
    } else if (name == "rival") {
      world_.rival = value.Kept();
    } else if (name == "file") {
      plan_->in_workspace_plan = true;
      if (value.Skip("not:")) {
        plan_->unconfirmed_why = value.Rest();
        return;
      }
      ConfirmedGraphKernel confirmed;
      confirmed.reason.because = value.Skip("own:")     ? ReasonKind::kWorkspacePlanOwnEngine
                                 : value.Skip("whole:") ? ReasonKind::kWorkspacePlanNoGain
                                                        : ReasonKind::kWorkspacePlan;
      confirmed.configuration = value.Plan();
      plan_->confirmed = std::move(confirmed);
    } else {
      Nonsense(name, "says nothing of a plan");
    }
  }

  void End() {
    for (MicroConfiguration& other : world_.others) other.micro_batch = world_.facts.problem.n;
    if (call_ != nullptr) {
      EndCall();
    } else {
      EndPlan();
    }
  }

  void EndCall() {
    Facts& facts = world_.facts;
    if (!refuses_) call_->need_bytes = need_;
    call_->passed_bytes = passes_.value_or(need_);
    const size_t limit = std::min(facts.user_limit, call_->passed_bytes);
    const auto complete = [&](Promise& promise) {
      const size_t least =
          std::max(promise.configuration.WorkspaceBytes(), promise.undivided.workspace_bytes);
      promise.workspace_bytes = std::max(least, room_);
      if (brings_ && promise.undivided.engine.empty()) {
        promise.owned_bytes = std::exchange(promise.workspace_bytes, 0);
      }
      const EngineId& largest = promise.configuration.Largest().engine;
      promise.reported = {largest.of_graph_api() ? promise.undivided.engine : largest,
                          facts.problem.n, promise.configuration.TimeMs(), promise.workspace_bytes,
                          promise.configuration.Deterministic() && promise.reference.deterministic};
      promise.limit_bytes = limit;
      promise.provisional = provisional_;
      promise.of_workspace_plan = from_file_;
      promise.ran_here = pieces_alone_;
    };
    if (call_->told && pieces_alone_) {
      call_->told->undivided = {};
      call_->told->baselines = {};
    }
    if (call_->told) complete(*call_->told);
    if (call_->told_alone) complete(*call_->told_alone);
    if (call_->kind != CallKind::kIdentity) call_->told_alone = call_->told;
    call_->was_told |= call_->told || call_->told_alone;
    if (divided_ || ran_) facts.earlier = {divided_, lost_, false, limit};
  }

  void EndPlan() {
    Facts& facts = world_.facts;
    plan_->need_bytes = need_;
    plan_->deterministic = !random_;
    if (plan_->confirmed) {
      plan_->confirmed->limit_bytes = facts.share
                                          ? std::min(facts.share->bytes, facts.share->limit_bytes)
                                          : std::min(facts.user_limit, need_);
    }
    if (plan_->told_here) {
      const size_t told = plan_->told->workspace_bytes;
      facts.earlier = {divided_, lost_, told < need_, told};
    } else if (divided_ || ran_) {
      facts.earlier = {divided_, lost_, false, need_};
    }
  }

  World world_;
  CallFacts* call_ = nullptr;  // set for a call of the legacy API, else null
  PlanFacts* plan_ = nullptr;  // set for a plan of the graph API, else null
  size_t need_ = 0, room_ = 0;
  std::optional<size_t> passes_;
  bool refuses_ = false, provisional_ = false, from_file_ = false, pieces_alone_ = false,
       random_ = false, brings_ = false;
  bool divided_ = false, ran_ = false, lost_ = false;
};

}  // namespace

World ReadWorld(std::string_view line) { return WorldReader().Read(line); }

}  // namespace ucudnn::planning
