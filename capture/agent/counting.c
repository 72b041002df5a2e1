#define _GNU_SOURCE
#include "counting.h"

#include <string.h>
#include <time.h>

#include "runtime.h"

enum {
    PAIRS = 64,
    // Of one function: its first launches, then one in so many, and not oftener than so.
    FIRST_SAMPLES = 4,
    SAMPLE_EVERY = 16,
    MAX_SAMPLES = 200,
};

enum pair_state { PAIR_FREE, PAIR_TAKEN, PAIR_RECORDED, PAIR_UNUSABLE };

// A pair of events. Made by the first thread that uses it and kept for the next session.
static struct pair {
    uint32_t state;
    uint64_t index;  // of the statistics
    const struct hip_table* table;
    void *start, *stop;
} g_pairs[PAIRS];

static void add(uint64_t* counter, uint64_t amount) {
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static void count_shape(struct capture_statistics* statistics, const struct launch* launch) {
    const uint32_t count = __atomic_load_n(&statistics->shape_count, __ATOMIC_ACQUIRE);
    uint32_t grid[3];
    for (int i = 0; i < 3; ++i) {
        grid[i] = launch->counts_work_items && launch->block[i] != 0
                      ? (launch->grid[i] + launch->block[i] - 1) / launch->block[i]
                      : launch->grid[i];
    }
    for (uint32_t i = 0; i < count && i < MAX_SHAPES; ++i) {
        if (memcmp(statistics->shapes[i].grid, grid, sizeof grid) == 0 &&
            memcmp(statistics->shapes[i].block, launch->block, sizeof grid) == 0 &&
            statistics->shapes[i].dynamic_lds_bytes == launch->dynamic_lds_bytes) {
            add(&statistics->shapes[i].launches, 1);
            return;
        }
    }
    if (count > MAX_SHAPES) {
        return;
    }
    // Two threads may add one shape at one time: it is listed twice then, or one overwrites the
    // other; whoever reads the list adds up.
    if (count < MAX_SHAPES) {
        memcpy(statistics->shapes[count].grid, grid, sizeof grid);
        memcpy(statistics->shapes[count].block, launch->block, sizeof grid);
        statistics->shapes[count].dynamic_lds_bytes = (uint32_t)launch->dynamic_lds_bytes;
        statistics->shapes[count].launches = 1;
    }
    __atomic_store_n(&statistics->shape_count, count + 1, __ATOMIC_RELEASE);
}

static struct pair* take_pair(const struct launch* launch) {
    for (int i = 0; i < PAIRS; ++i) {
        uint32_t state = PAIR_FREE;
        if ((g_pairs[i].table == NULL || g_pairs[i].table == launch->table) &&
            __atomic_compare_exchange_n(&g_pairs[i].state, &state, PAIR_TAKEN, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return &g_pairs[i];
        }
    }
    return NULL;
}

static bool is_usable(struct pair* pair, const struct launch* launch) {
    if (pair->start == NULL) {
        pair->table = launch->table;
        return runtime_event_create(launch->table, &pair->start) &&
               runtime_event_create(launch->table, &pair->stop);
    }
    return true;
}

static void begin_sample(struct capture_control* control, struct launch* launch,
                         uint64_t index) {
    struct runtime_scope scope;
    if (!runtime_enter(launch->table, &scope)) {
        return;
    }
    // An event in a stream that is captured would become part of the program's graph.
    struct pair* pair = NULL;
    if (runtime_is_stream_capturing(launch->table, launch->stream)) {
        add(&control->stream_captures, 1);
    } else if ((pair = take_pair(launch)) != NULL) {
        const bool is_made = is_usable(pair, launch);
        if (is_made && runtime_event_record(launch->table, pair->start, launch->stream)) {
            pair->index = index;
            launch->sample = 1 + (int)(pair - g_pairs);
        } else {
            __atomic_store_n(&pair->state, is_made ? PAIR_FREE : PAIR_UNUSABLE, __ATOMIC_RELEASE);
        }
    }
    runtime_leave(launch->table, &scope);
}

void counting_begin(struct capture_control* control, struct launch* launch, int index) {
    const uint64_t at = control->functions[index].statistics % MAX_NAMES;
    struct capture_statistics* statistics = &control->statistics[at];
    const uint64_t number = __atomic_fetch_add(&statistics->launches, 1, __ATOMIC_RELAXED);
    count_shape(statistics, launch);
    const uint64_t samples = __atomic_load_n(&statistics->samples, __ATOMIC_RELAXED);
    if (samples < MAX_SAMPLES && (number < FIRST_SAMPLES || number % SAMPLE_EVERY == 0)) {
        begin_sample(control, launch, at);
    }
}

void counting_end(const struct launch* launch) {
    struct pair* pair = &g_pairs[launch->sample - 1];
    struct runtime_scope scope;
    const bool is_entered = runtime_enter(launch->table, &scope);
    const bool is_recorded =
        is_entered && runtime_event_record(launch->table, pair->stop, launch->stream);
    if (is_entered) {
        runtime_leave(launch->table, &scope);
    }
    __atomic_store_n(&pair->state, is_recorded ? PAIR_RECORDED : PAIR_FREE, __ATOMIC_RELEASE);
}

void counting_collect(struct capture_control* control) {
    for (int i = 0; i < PAIRS; ++i) {
        struct pair* pair = &g_pairs[i];
        struct runtime_scope scope;
        if (__atomic_load_n(&pair->state, __ATOMIC_ACQUIRE) != PAIR_RECORDED ||
            !runtime_enter(pair->table, &scope)) {
            continue;
        }
        if (runtime_event_is_done(pair->table, pair->stop)) {
            float ms = 0;
            if (runtime_event_elapsed(pair->table, &ms, pair->start, pair->stop) && ms >= 0) {
                struct capture_statistics* statistics = &control->statistics[pair->index];
                add(&statistics->sampled_ns, (uint64_t)(ms * 1e6f));
                add(&statistics->samples, 1);
            }
            __atomic_store_n(&pair->state, PAIR_FREE, __ATOMIC_RELEASE);
        }
        runtime_leave(pair->table, &scope);
    }
}
