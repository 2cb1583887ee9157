// calendar finds the windows of calendar periods by the C library's clock. It shares
// nothing with engine/calendar.go: it walks through the readings of localtime_r and bisects.
//
// Each line of the input is a question, and a line of the output its answer:
//
//	zone period anchor instant     period is h, d, w or m
//	start end                      microseconds since 1970
//
// A zone's questions stand together. TZDIR names the directory with the zone data.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A change of the clock: from that second on the wall shows the second plus offset.
struct change { long at, offset; };

static struct change changes[4096];
static int count;

static long offset(long second) {
	struct tm tm;
	time_t t = second;
	if (!localtime_r(&t, &tm)) { perror("localtime_r"); exit(1); }
	return tm.tm_gmtoff;
}

// learn collects the changes of a zone from 1969 to 2256. It looks at the clock at every
// full hour and finds the second of a change by bisection.
static void learn(const char *zone, long from, long to) {
	setenv("TZ", zone, 1);
	tzset();
	count = 0;
	changes[count++] = (struct change){ -1L << 40, offset(from) };
	for (long t = from; t < to; t += 3600) {
		long last = changes[count-1].offset, low = t, high = t + 3600;
		if (offset(high) == last) continue;
		while (high - low > 1) {
			long mid = low + (high - low) / 2;
			if (offset(mid) == last) low = mid; else high = mid;
		}
		changes[count++] = (struct change){ high, offset(high) };
	}
}

// latest is the latest reading that the wall has shown up to a second, as if it were UTC.
// It never runs back.
static long latest(long second) {
	int i = count - 1;
	while (i > 0 && changes[i].at > second) i--;
	long most = second + changes[i].offset;
	for (; i > 0 && changes[i].at > second - 3*86400; i--) {
		long before = changes[i].at - 1 + changes[i-1].offset;
		if (before > most) most = before;
	}
	return most;
}

// divide rounds down.
static long divide(long a, long b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// number is the number of the period that holds a reading of the wall.
static long number(char period, int anchor, long wall) {
	if (period == 'h') return divide(wall, 3600);
	if (period == 'd') return divide(wall, 86400);
	if (period == 'w') return divide(divide(wall, 86400) + 3 - (anchor - 1), 7); // 1970 began on a Thursday
	static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	struct tm tm;
	time_t t = wall;
	gmtime_r(&t, &tm);
	int year = tm.tm_year + 1900;
	int leap = tm.tm_mon == 1 && (year % 400 == 0 || (year % 4 == 0 && year % 100 != 0));
	int last = lengths[tm.tm_mon] + leap;
	return year * 12L + tm.tm_mon - (tm.tm_mday < (anchor < last ? anchor : last));
}

// first is the first second, in (low, high], in a period of at least that number.
static long first(char period, int anchor, long low, long high, long least) {
	while (high - low > 1) {
		long mid = low + (high - low) / 2;
		if (number(period, anchor, latest(mid)) >= least) high = mid; else low = mid;
	}
	return high;
}

int main(int argc, char **argv) {
	if (argc != 3) { fprintf(stderr, "usage: calendar first-year last-year\n"); return 2; }
	long from = (atol(argv[1]) - 1970) * 31556952L, to = (atol(argv[2]) - 1970 + 1) * 31556952L;
	from -= from % 3600;
	char zone[64], known[64] = "", period;
	int anchor;
	long at;
	while (scanf("%63s %c %d %ld", zone, &period, &anchor, &at) == 4) {
		if (strcmp(zone, known)) { learn(zone, from, to); strcpy(known, zone); }
		long second = divide(at, 1000000), now = number(period, anchor, latest(second));
		long longest = period == 'm' ? 34*86400L : period == 'w' ? 9*86400L : 3*86400L;
		long start = first(period, anchor, second - longest, second, now);
		long end = first(period, anchor, second, second + longest, now + 1);
		printf("%ld %ld\n", start * 1000000, end * 1000000);
	}
	return 0;
}
