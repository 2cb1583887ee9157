package redisserver

import (
	"testing"
	"time"
)

const infoCPU = "# CPU\r\nused_cpu_sys:3.000000\r\nused_cpu_user:9.000000\r\n" +
	"used_cpu_sys_main_thread:0.250000\r\nused_cpu_user_main_thread:1.500001\r\n"

func TestMainThread(t *testing.T) {
	got, err := mainThread(infoCPU)
	if want := 1_750_001 * time.Microsecond; got != want || err != nil {
		t.Errorf("mainThread = %v, %v, want %v", got, err, want)
	}
	if _, err := mainThread("# CPU\r\nused_cpu_sys:3.000000\r\n"); err == nil {
		t.Error("an answer without the main thread gave no error")
	}
}

func TestField(t *testing.T) {
	for name, want := range map[string]string{"used_cpu_user": "9.000000", "used_cpu_sys": "3.000000", "cpu": "", "used": ""} {
		if got := Field(infoCPU, name); got != want {
			t.Errorf("Field(%q) = %q, want %q", name, got, want)
		}
	}
}
