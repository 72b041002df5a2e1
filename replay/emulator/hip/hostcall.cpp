#include "hip/hostcall.h"

#include <cstring>
#include <memory>

#include "hip/allocation.h"
#include "hip/device_printf.h"
#include "hip/log.h"
#include "memory/address_space.h"
#include "memory/arena.h"

namespace asmevo::emulator::hip {
namespace {

// Layouts: ROCm device-libs, ockl/src/hostcall_impl.cl; CLR, rocclr/device/devhostcall.hpp. The
// upper bits of a stack's pointer are a tag that device code increments.

constexpr uint64_t kPackets = 256;  // a power of two; more waves than that wait their turn
constexpr uint64_t kIndexMask = kPackets - 1;

struct PacketHeader {
    uint64_t next;
    uint64_t active_lanes;
    uint32_t service;
    uint32_t control;  // bit 0: the host has not answered yet
};
static_assert(sizeof(PacketHeader) == 24);

struct PacketPayload {
    uint64_t slots[64][8];
};

/// amd_signal_t: without a mailbox, device code only changes its value.
struct Signal {
    uint64_t kind, value, mailbox, event;
    uint64_t padding[4];
};

struct Buffer {
    uint64_t headers, payloads, doorbell, free_stack, ready_stack, index_mask;
    Signal signal;
    PacketHeader header[kPackets];
    PacketPayload payload[kPackets];
};

Buffer& buffer_at(uint64_t address) {
    return *reinterpret_cast<Buffer*>(address);
}

enum Service : uint32_t { kPrintfService = 2, kMemoryService = 3 };

// Descriptor of a message's part: CLR, rocclr/device/devhcmessages.hpp.
constexpr uint64_t kBegin = 1, kEnd = 2;
constexpr uint64_t kFlagsAndCount = 0xff;
constexpr unsigned kCountShift = 5, kIdShift = 8;
constexpr size_t kMaxMessageWords = 1 << 17, kMaxMessages = 1 << 16;

// heap_t of ockl/src/dm.cl, all zeros at first; ROCm reserves as much for it.
constexpr uint64_t kHeapSize = 128 << 10;
// Device code finds a block's slab by rounding its address down.
constexpr uint64_t kSlabSize = 2 << 20;

}  // namespace

HostcallService* HostcallService::get() {
    static HostcallService* instance = []() -> HostcallService* {
        const uint64_t address = Arena::get().map(Area::kRuntime, sizeof(Buffer));
        if (address == 0) {
            return nullptr;
        }
        AddressSpace::get().add({address, sizeof(Buffer), MemoryKind::kKernarg, true});
        return new HostcallService(address);
    }();
    return instance;
}

void HostcallService::begin_launch() {
    Buffer& buffer = buffer_at(address_);
    buffer.headers = reinterpret_cast<uint64_t>(buffer.header);
    buffer.payloads = reinterpret_cast<uint64_t>(buffer.payload);
    buffer.signal = {};
    buffer.doorbell = reinterpret_cast<uint64_t>(&buffer.signal);
    buffer.index_mask = kIndexMask;
    // A pointer is never zero: packet 0 starts with a tag.
    for (uint64_t i = 0; i < kPackets; ++i) {
        buffer.header[i] = {};
        buffer.header[i].next = i == 0 ? 0 : i == 1 ? kPackets : i - 1;
    }
    buffer.free_stack = kPackets - 1;
    buffer.ready_stack = 0;
    messages_.clear();
    has_failed_assertion_ = false;
}

void HostcallService::serve() {
    std::atomic_ref ready(buffer_at(address_).ready_stack);
    if (ready.load(std::memory_order_relaxed) == 0) {
        return;
    }
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> packets;
    uint64_t next = ready.exchange(0, std::memory_order_acquire);
    while (next != 0 && packets.size() < kPackets) {
        packets.push_back(next & kIndexMask);
        next = buffer_at(address_).header[next & kIndexMask].next;
    }
    // Oldest first.
    for (auto packet = packets.rbegin(); packet != packets.rend(); ++packet) {
        serve_packet(*packet);
    }
}

void HostcallService::serve_packet(uint64_t index) {
    PacketHeader& header = buffer_at(address_).header[index];
    PacketPayload& payload = buffer_at(address_).payload[index];
    for (unsigned lane = 0; lane < 64; ++lane) {
        if (header.active_lanes >> lane & 1) {
            serve_lane(header.service, payload.slots[lane]);
        }
    }
    std::atomic_ref(header.control).fetch_and(~1u, std::memory_order_release);
}

void HostcallService::serve_lane(uint32_t service, uint64_t* slot) {
    switch (service) {
        case kPrintfService:
            return take_message(slot);
        case kMemoryService:
            return serve_memory(slot);
        default:
            log_error("the kernel asks for host service %u, which is not supported", service);
            slot[0] = slot[1] = 0;
    }
}

void HostcallService::take_message(uint64_t* slot) {
    uint64_t descriptor = slot[0];
    uint64_t id = descriptor >> kIdShift;
    if (descriptor & kBegin) {
        id = next_message_++ & (~0ull >> kIdShift);
        slot[0] = descriptor = (descriptor & kFlagsAndCount & ~kBegin) | id << kIdShift;
        if (messages_.size() < kMaxMessages) {
            messages_[id];
        }
    }
    const auto message = messages_.find(id);
    const size_t count = descriptor >> kCountShift & 7;
    if (message == messages_.end() || message->second.size() + count > kMaxMessageWords) {
        log_error("a message of a kernel's printf is malformed");
        slot[0] = ~0ull;
        return;
    }
    message->second.insert(message->second.end(), slot + 1, slot + 1 + count);
    if (descriptor & kEnd) {
        print_message(slot, message->second);
        messages_.erase(message);
    }
}

/// The first word says where to: 0 stdout, 1 stderr. The answer is printf's result.
void HostcallService::print_message(uint64_t* slot, const std::vector<uint64_t>& message) {
    if (message.empty() || message[0] > 1) {
        slot[0] = ~0ull;
        return;
    }
    const std::string text = format_device_printf(std::span(message).subspan(1));
    has_failed_assertion_ = has_failed_assertion_ || (text.find("ssertion") != std::string::npos &&
                                                      text.find("failed") != std::string::npos);
    write_device_output(text, message[0] == 1);
    slot[0] = text.size();
}

/// Allocates `slot[1]` bytes, or frees `slot[0]`.
void HostcallService::serve_memory(uint64_t* slot) {
    if (slot[0] != 0) {
        // Waves may remember the range: it goes with the launch.
        AddressSpace::get().remove(slot[0]);
        freed_.push_back(slot[0]);
        return;
    }
    const uint64_t size = slot[1];
    slot[0] = size == 0 ? 0
                        : allocate(size, MemoryKind::kDevice, 0,
                                   size >= kSlabSize ? kSlabSize : kPageSize);
}

void HostcallService::end_launch() {
    for (const uint64_t address : freed_) {
        if (!release_in_launch(address)) {
            log_error("the kernel freed 0x%llx, which is no allocation of its heap",
                      static_cast<unsigned long long>(address));
        }
    }
    freed_.clear();
}

uint64_t device_heap_address() {
    static const uint64_t heap = [] {
        const uint64_t address = Arena::get().map(Area::kRuntime, kHeapSize);
        if (address != 0) {
            AddressSpace::get().add({address, kHeapSize, MemoryKind::kKernarg, true});
        }
        return address;
    }();
    return heap;
}

}  // namespace asmevo::emulator::hip
