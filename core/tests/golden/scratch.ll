; scratch: no actions
define internal void @"scratch.body"(ptr noalias %data0, ptr noalias readonly %data1, i64 %var.n) #0 {
entry:
  %local0 = alloca [12 x float], align 64
  %acc0 = alloca float
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, %var.n
  br i1 %more1, label %loop0, label %exit0
loop0:
  %mul2 = mul nsw i64 %r0, 12
  store float 0xFFF0000000000000, ptr %acc0
  br label %head1
head1:
  %r1 = phi i64 [ 0, %loop0 ], [ %next1, %latch1 ]
  %more3 = icmp slt i64 %r1, 12
  br i1 %more3, label %loop1, label %exit1
loop1:
  %add4 = add nsw i64 %mul2, %r1
  %p5 = getelementptr inbounds float, ptr %data1, i64 %add4
  %load6 = load float, ptr %p5, align 4
  %p7 = getelementptr inbounds float, ptr %local0, i64 %r1
  store float %load6, ptr %p7, align 4
  %old8 = load float, ptr %acc0
  %beats9 = fcmp ogt float %load6, %old8
  %max10 = select i1 %beats9, float %load6, float %old8
  %nan11 = fcmp uno float %load6, 0.0
  %max12 = select i1 %nan11, float %load6, float %max10
  store float %max12, ptr %acc0
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  br label %head1
exit1:
  %get13 = load float, ptr %acc0
  br label %head2
head2:
  %r2 = phi i64 [ 0, %exit1 ], [ %next2, %latch2 ]
  %more14 = icmp slt i64 %r2, 12
  br i1 %more14, label %loop2, label %exit2
loop2:
  %p15 = getelementptr inbounds float, ptr %local0, i64 %r2
  %load16 = load float, ptr %p15, align 4
  %add17 = add nsw i64 %mul2, %r2
  %sub18 = fsub float %load16, %get13
  %p19 = getelementptr inbounds float, ptr %data0, i64 %add17
  store float %sub18, ptr %p19, align 4
  br label %latch2
latch2:
  %next2 = add nuw nsw i64 %r2, 1
  br label %head2
exit2:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
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
  call void @"scratch.body"(ptr %data0, ptr %data1, i64 %var.n)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
