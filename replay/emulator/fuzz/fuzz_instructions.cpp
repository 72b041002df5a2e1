// Feeds the decoder and the executor random and damaged instructions, in a build with sanitizers.
//
//     fuzz_instructions decoder|executor SEED COUNT [TEXT...]
//
// TEXT files hold the instructions of real kernels, one target a file (NAME.gfx942.text). Every case has a seed of its
// own, printed when a sanitizer or the watchdog ends the program: `fuzz_instructions MODE SEED+N 1` runs it again.
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "exec/dispatch.h"
#include "isa/inst.h"
#include "isa/tables.h"
#include "memory/arena.h"

namespace {

using namespace asmevo::emulator;

constexpr unsigned kWatchdogSeconds = 60;
constexpr size_t kInstructions = 40, kDataBytes = 4096, kMaxCodeBytes = 1 << 16;
constexpr Target kTargets[] = {Target::kGfx90a, Target::kGfx942, Target::kGfx950};
constexpr const char* kTargetNames[] = {"gfx90a", "gfx942", "gfx950"};

uint64_t g_case = 0;
uint64_t g_ended = 0, g_executed = 0;  // launches without a fault, instructions of all waves

void tell_case() { std::fprintf(stderr, "case %llu\n", static_cast<unsigned long long>(g_case)); }

void on_alarm(int) {
    tell_case();
    std::fprintf(stderr, "no end after %u seconds\n", kWatchdogSeconds);
    std::_Exit(3);
}

class Random {
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint32_t word() { return static_cast<uint32_t>(engine_()); }
    uint32_t below(uint32_t limit) { return word() % limit; }
    bool one_in(uint32_t count) { return below(count) == 0; }

  private:
    std::mt19937_64 engine_;
};

struct Text {
    unsigned target;
    std::vector<uint32_t> words;
};

std::vector<Text> read_texts(int count, char** names) {
    std::vector<Text> texts;
    for (int i = 0; i < count; ++i) {
        const std::string name = names[i];
        std::ifstream file(name, std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
        for (unsigned target = 0; target < 3; ++target) {
            if (name.find(kTargetNames[target]) != name.npos && bytes.size() >= 4) {
                Text text{target, std::vector<uint32_t>(bytes.size() / 4)};
                std::memcpy(text.words.data(), bytes.data(), text.words.size() * 4);
                texts.push_back(std::move(text));
            }
        }
    }
    return texts;
}

std::vector<const OpInfo*> all_rows() {
    std::vector<const OpInfo*> rows;
    for (auto table : {sop_ops(), smem_ops(), vop1_ops(), vop2_ops(), vopc_ops(), vop3_ops(), vop3p_ops(), mfma_ops(),
                       ds_ops(), mubuf_ops(), flat_ops()}) {
        for (const OpInfo& row : table) {
            rows.push_back(&row);
        }
    }
    return rows;
}

/// First word of an operation, its operand fields random.
uint32_t first_word(const OpInfo& row, Random& random) {
    const uint32_t noise = random.word(), op = row.opcode;
    const auto fill = [&](uint32_t fixed, uint32_t mask) { return fixed | (noise & ~mask); };
    switch (row.encoding) {
        case Encoding::kSop2: return fill(0x80000000u | op << 23, 0xff800000u);
        case Encoding::kSopk: return fill(0xb0000000u | op << 23, 0xff800000u);
        case Encoding::kSop1: return fill(0xbe800000u | op << 8, 0xff80ff00u);
        case Encoding::kSopc: return fill(0xbf000000u | op << 16, 0xffff0000u);
        case Encoding::kSopp: return fill(0xbf800000u | op << 16, 0xffff0000u);
        case Encoding::kSmem: return fill(0xc0000000u | op << 18, 0xfffc0000u);
        case Encoding::kVop1: return random.one_in(3) ? fill(0xd0000000u | (op + 0x140) << 16, 0xffff0000u)
                                                      : fill(0x7e000000u | op << 9, 0xfe01fe00u);
        case Encoding::kVop2: return random.one_in(3) ? fill(0xd0000000u | (op + 0x100) << 16, 0xffff0000u)
                                                      : fill(op << 25, 0xfe000000u);
        case Encoding::kVopc: return random.one_in(3) ? fill(0xd0000000u | op << 16, 0xffff0000u)
                                                      : fill(0x7c000000u | op << 17, 0xfffe0000u);
        case Encoding::kVop3: return fill(0xd0000000u | op << 16, 0xffff0000u);
        case Encoding::kVop3p: return fill(0xd3800000u | op << 16, 0xffff0000u);
        case Encoding::kDs: return fill(0xd8000000u | op << 17, 0xfffe0000u);
        case Encoding::kMubuf: return fill(0xe0000000u | op << 18, 0xfdfc0000u);
        case Encoding::kMtbuf: return fill(0xe8000000u | op << 15, 0xfc078000u);
        default: {
            const uint32_t segment = row.encoding == Encoding::kFlat ? 0 : row.encoding == Encoding::kScratch ? 1 : 2;
            return fill(0xdc000000u | op << 18 | segment << 14, 0xfdfcc000u);
        }
    }
}

/// Words of one instruction that decodes on the target, or random ones after some attempts.
void add_instruction(Target target, const std::vector<const OpInfo*>& rows, Random& random,
                     std::vector<uint32_t>& code) {
    uint32_t words[4];
    Inst inst;
    std::string error;
    for (int attempt = 0; attempt < 30; ++attempt) {
        const OpInfo& row = *rows[random.below(static_cast<uint32_t>(rows.size()))];
        words[0] = first_word(row, random);
        words[1] = random.word();
        // VOP3's sources are rarely legal when all nine bits are random: mostly VGPRs.
        words[1] |= random.one_in(3) ? 0 : 0x04020100u;
        words[2] = random.word();
        words[3] = random.word();
        if (decode(target, words, 4, inst, error)) {
            code.insert(code.end(), words, words + inst.size_dwords);
            return;
        }
    }
    code.push_back(random.word());
}

void fuzz_decoder(Random& random, const std::vector<Text>& texts) {
    uint32_t words[8];
    unsigned target = random.below(3);
    for (uint32_t& word : words) {
        word = random.word();
    }
    if (!texts.empty() && random.one_in(2)) {
        const Text& text = texts[random.below(static_cast<uint32_t>(texts.size()))];
        target = text.target;
        for (size_t i = 0, at = random.below(static_cast<uint32_t>(text.words.size()));
             i < std::size(words) && at + i < text.words.size(); ++i) {
            words[i] = text.words[at + i];
        }
        for (uint32_t flips = random.below(4); flips > 0; --flips) {
            words[random.below(3)] ^= 1u << random.below(32);
        }
    }
    // Exactly as many words as there are said to be: reading beyond them is found.
    const size_t count = random.below(std::size(words)) + 1;
    const std::vector<uint32_t> exact(words, words + count);
    Inst inst;
    std::string error;
    if (decode(kTargets[target], exact.data(), count, inst, error)) {
        if (inst.size_dwords > count || format(inst).empty()) {
            tell_case();
            std::abort();
        }
    } else if (error.empty()) {
        tell_case();
        std::abort();
    }
}

/// Device memory that programs may reach, registered as a module's.
struct Memory {
    uint64_t code, data;

    Memory() : code(Arena::get().map(Area::kRuntime, kMaxCodeBytes)), data(Arena::get().map(Area::kDevice, kDataBytes)) {
        if (code == 0 || data == 0) {
            std::abort();
        }
        AddressSpace::get().add({code, kMaxCodeBytes, MemoryKind::kModule, false});
        AddressSpace::get().add({data, kDataBytes, MemoryKind::kDevice, true});
    }
};

constexpr uint32_t scalar_move(uint32_t reg) { return 0xbe8000ffu | reg << 16; }
constexpr uint32_t vector_move(uint32_t reg) { return 0x7e0002ffu | reg << 17; }

/// Registers that hold something useful: addresses, descriptors, small and random numbers.
void add_prologue(const Memory& memory, Random& random, std::vector<uint32_t>& code) {
    const uint32_t low = static_cast<uint32_t>(memory.data), high = static_cast<uint32_t>(memory.data >> 32);
    const auto value = [&] {
        return random.one_in(3) ? random.word() : random.one_in(2) ? random.below(256) : 0u;
    };
    for (uint32_t reg = 2; reg < 100; reg += 4) {
        const bool is_address = random.one_in(2);
        const uint32_t words[4] = {is_address ? low + random.below(kDataBytes) / 4 * 4 : value(),
                                   is_address ? high | random.below(8) << 16 : value(), random.below(2 * kDataBytes),
                                   random.one_in(2) ? 0x27000u : random.word()};
        for (uint32_t i = 0; i < 4; ++i) {
            code.insert(code.end(), {scalar_move(reg + i), words[i]});
        }
    }
    code.insert(code.end(), {scalar_move(124), random.below(1024)});
    for (uint32_t reg = 1; reg < 256; reg += 2 + random.below(6)) {
        const bool is_address = random.one_in(3);
        code.insert(code.end(), {vector_move(reg), is_address ? low + random.below(kDataBytes) : value()});
        if (reg < 255) {
            code.insert(code.end(), {vector_move(reg + 1), is_address ? high : value()});
        }
    }
    if (random.one_in(2)) {
        code.insert(code.end(), {scalar_move(126), random.word(), scalar_move(127), random.word()});
    }
}

void fuzz_executor(Random& random, const std::vector<Text>& texts, const std::vector<const OpInfo*>& rows,
                   const Memory& memory) {
    unsigned target = random.below(3);
    std::vector<uint32_t> code;
    add_prologue(memory, random, code);
    if (!texts.empty() && random.one_in(3)) {
        const Text& text = texts[random.below(static_cast<uint32_t>(texts.size()))];
        target = text.target;
        const size_t at = random.below(static_cast<uint32_t>(text.words.size()));
        for (size_t i = at; i < text.words.size() && i < at + 4 * kInstructions; ++i) {
            code.push_back(random.one_in(40) ? text.words[i] ^ 1u << random.below(32) : text.words[i]);
        }
    } else {
        for (size_t i = 0; i < kInstructions; ++i) {
            add_instruction(kTargets[target], rows, random, code);
        }
    }
    code.push_back(0xbf810000u);  // s_endpgm
    std::memcpy(reinterpret_cast<void*>(memory.code), code.data(), code.size() * 4);

    CodeSegment segment(kTargets[target], memory.code, code.size() * 4);
    KernelImage kernel;
    kernel.name = "fuzz";
    kernel.target = kTargets[target];
    kernel.code = &segment;
    kernel.entry = memory.code;
    kernel.group_segment_size = random.one_in(2) ? 0 : random.below(4096);
    kernel.private_segment_size = random.one_in(2) ? 0 : random.below(512);
    const uint32_t vgprs = random.one_in(8) ? random.below(64) : 63;
    kernel.rsrc1 = vgprs | (random.word() & 0x048ff000u);  // any MODE
    kernel.rsrc2 = (random.word() & 0x1f81u) | 2u << 1;
    kernel.rsrc3 = random.one_in(8) ? random.below(64) : 63;
    kernel.kernel_code_properties = 1 << 3;
    DispatchRequest request;
    request.kernel = &kernel;
    request.grid = {1 + random.below(3), 1, 1};
    request.block = {1 + random.below(160), 1, 1};
    request.kernarg_address = memory.data;
    DispatchOptions options;
    options.threads = 1;
    options.model_timing = random.one_in(2);
    options.collect_profile = random.one_in(4);
    options.reverse_waves = random.one_in(4);
    options.fast_matrix = random.one_in(4);
    options.max_wave_instructions = 20000;
    const DispatchResult result = run_dispatch(request, options);
    g_ended += result.ok ? 1 : 0;
    g_executed += result.wave_instructions;
    if (!result.ok && result.report.empty()) {
        tell_case();
        std::abort();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s decoder|executor SEED COUNT [TEXT...]\n", argv[0]);
        return 2;
    }
    setenv("ASMEVO_EMULATOR_DISCRETE", "1", 1);  // programs must not reach this process' own memory
    std::signal(SIGALRM, on_alarm);
    __sanitizer_set_death_callback(tell_case);
    const bool executes = std::strcmp(argv[1], "executor") == 0;
    const uint64_t seed = std::strtoull(argv[2], nullptr, 10), count = std::strtoull(argv[3], nullptr, 10);
    const std::vector<Text> texts = read_texts(argc - 4, argv + 4);
    const std::vector<const OpInfo*> rows = all_rows();
    const Memory memory;
    for (uint64_t i = 0; i < count; ++i) {
        g_case = seed + i;
        Random random(g_case);
        if (executes) {
            alarm(kWatchdogSeconds);
            fuzz_executor(random, texts, rows, memory);
        } else {
            fuzz_decoder(random, texts);
        }
    }
    alarm(0);
    std::printf("%s: %llu cases, no finding\n", argv[1], static_cast<unsigned long long>(count));
    if (executes) {
        std::printf("%llu launches ended without a fault; %llu wave instructions\n",
                    static_cast<unsigned long long>(g_ended), static_cast<unsigned long long>(g_executed));
    }
    return 0;
}
