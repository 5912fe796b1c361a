; scratch: no actions
define internal void @"scratch.body"(ptr noalias %data0, ptr noalias readonly %data1, i64 %var.n, ptr noalias %scratch) #0 {
entry:
  %local0 = getelementptr inbounds i8, ptr %scratch, i64 0
  %acc0 = alloca float
  %some1 = icmp slt i64 0, %var.n
  br i1 %some1, label %loop0, label %exit0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul2 = mul nsw i64 %r0, 12
  store float 0xFFF0000000000000, ptr %acc0
  br label %loop1
loop1:
  %r1 = phi i64 [ 0, %loop0 ], [ %next1, %latch1 ]
  %add3 = add nsw i64 %mul2, %r1
  %p4 = getelementptr inbounds float, ptr %data1, i64 %add3
  %load5 = load float, ptr %p4, align 4
  %p6 = getelementptr inbounds float, ptr %local0, i64 %r1
  store float %load5, ptr %p6, align 4
  %old7 = load float, ptr %acc0
  %call8 = call nsz float @llvm.maximum.f32(float %load5, float %old7)
  store float %call8, ptr %acc0
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  %more9 = icmp slt i64 %next1, 12
  br i1 %more9, label %loop1, label %exit1
exit1:
  %get10 = load float, ptr %acc0
  br label %loop2
loop2:
  %r2 = phi i64 [ 0, %exit1 ], [ %next2, %latch2 ]
  %p11 = getelementptr inbounds float, ptr %local0, i64 %r2
  %load12 = load float, ptr %p11, align 4
  %add13 = add nsw i64 %mul2, %r2
  %sub14 = fsub float %load12, %get10
  %p15 = getelementptr inbounds float, ptr %data0, i64 %add13
  store float %sub14, ptr %p15, align 4
  br label %latch2
latch2:
  %next2 = add nuw nsw i64 %r2, 1
  %more16 = icmp slt i64 %next2, 12
  br i1 %more16, label %loop2, label %exit2
exit2:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more17 = icmp slt i64 %next0, %var.n
  br i1 %more17, label %loop0, label %exit0
exit0:
  ret void
}

define void @"scratch"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %where0 = getelementptr i64, ptr %variables, i64 0
  %var.n = load i64, ptr %where0
  %room = getelementptr ptr, ptr %variables, i64 3
  %scratch = load ptr, ptr %room
  call void @"scratch.body"(ptr %data0, ptr %data1, i64 %var.n, ptr %scratch)
  ret void
}

declare float @llvm.maximum.f32(float, float)
attributes #0 = { nounwind "prefer-vector-width"="256" }
